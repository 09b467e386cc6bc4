//! Bodies that go wrong while they run.

mod common;

use common::{Job, kernel, ordered, simulator};
use metal_sim::{DType, Input, Order, SimError};

/// The two places of a divergence: operation and line.
fn divergence(threads: usize, body: &str) -> [(String, u32); 2] {
    match Job::new(threads, threads, DType::F32).error(body) {
        SimError::Divergence { first, second, .. } => {
            [*first, *second].map(|p| (p.operation, p.line))
        }
        other => panic!("{other}"),
    }
}

fn place(operation: &str, line: u32) -> (String, u32) {
    (operation.to_owned(), line)
}

#[test]
fn lanes_at_different_operations() {
    let body = "
        uint i = thread_position_in_threadgroup.x;
        float x = 0.0f;
        if (i < 5) x = simd_sum(1.0f);
        else x = simd_max(1.0f);
        out[i] = x;";
    assert_eq!(
        divergence(32, body),
        [place("simd_sum", 4), place("simd_max", 5)]
    );
}

#[test]
fn lanes_at_the_same_operation_of_different_lines() {
    let body = "
        uint i = thread_position_in_threadgroup.x;
        if (i == 7) simdgroup_barrier(mem_flags::mem_none);
        simdgroup_barrier(mem_flags::mem_none);
        out[i] = 1.0f;";
    assert_eq!(
        divergence(32, body),
        [place("simdgroup_barrier", 4), place("simdgroup_barrier", 3)]
    );
}

#[test]
fn lane_at_a_barrier_while_others_shuffle() {
    let body = "
        uint i = thread_position_in_threadgroup.x;
        if (i == 0) threadgroup_barrier(mem_flags::mem_threadgroup);
        out[i] = simd_shuffle_down(1.0f, 1);";
    assert_eq!(
        divergence(32, body),
        [
            place("threadgroup_barrier", 3),
            place("simd_shuffle_down", 4)
        ]
    );
}

#[test]
fn simdgroups_at_different_barriers() {
    let body = "
        uint i = thread_position_in_threadgroup.x;
        if (simdgroup_index_in_threadgroup == 1) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
        } else {
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        out[i] = 1.0f;";
    assert_eq!(
        divergence(64, body),
        [
            place("threadgroup_barrier", 6),
            place("threadgroup_barrier", 4)
        ]
    );
    let error = Job::new(64, 64, DType::F32).error(body).to_string();
    assert!(
        error.contains("threadgroup_barrier at body line 6 (thread 0, 0, 0)"),
        "{error}"
    );
    assert!(
        error.contains("threadgroup_barrier at body line 4 (thread 32, 0, 0)"),
        "{error}"
    );
}

#[test]
fn operations_in_a_header_name_it() {
    let source = metal_sim::KernelSource {
        header: "inline float total(float x) {\n    return simd_sum(x);\n}".to_owned(),
        ..kernel(
            0,
            "uint i = thread_position_in_threadgroup.x;\nout[i] = i == 3 ? total(1.0f) : simd_max(1.0f);",
        )
    };
    let error = Job::new(32, 32, DType::F32)
        .run_on(simulator(), &source)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("simd_sum at header line 2 (thread 3, 0, 0)"),
        "{error}"
    );
    assert!(error.contains("simd_max at body line 2"), "{error}");
}

#[test]
fn barrier_after_some_have_returned() {
    let missing = |threads: usize, condition: &str| {
        let body = format!(
            "uint i = thread_position_in_threadgroup.x;
             out[i] = 1.0f;
             if ({condition}) return;
             threadgroup_barrier(mem_flags::mem_threadgroup);"
        );
        match Job::new(threads, threads, DType::F32).error(&body) {
            SimError::Missing {
                waiting, missing, ..
            } => {
                assert_eq!(
                    (waiting.operation.as_str(), waiting.line),
                    ("threadgroup_barrier", 4)
                );
                missing
            }
            other => panic!("{other}"),
        }
    };
    assert_eq!(missing(8, "i == 3"), 3);
    assert_eq!(missing(64, "i >= 32"), 32);
    assert_eq!(missing(40, "i == 39"), 39);
}

#[test]
fn whole_simdgroups_may_return_where_no_barrier_follows() {
    let body = "
        uint i = thread_position_in_threadgroup.x;
        out[i] = 0.0f;
        if (simdgroup_index_in_threadgroup == 1) return;
        out[i] = simd_sum(1.0f);";
    let out = Job::new(96, 96, DType::F32).run::<f32>(body);
    assert_eq!((out[0], out[40], out[95]), (32.0, 0.0, 32.0));
}

#[test]
fn matrix_operations_need_every_lane() {
    let body = "
        simdgroup_float8x8 m(1.0f);
        simdgroup_multiply(m, m, m);
        out[thread_position_in_grid.x] = m.thread_elements().x;";
    for threads in [20, 40] {
        match Job::new(threads, threads, DType::F32).error(body) {
            SimError::Missing {
                waiting, missing, ..
            } => {
                assert_eq!((waiting.line, missing), (3, threads as u32));
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn elements_never_written() {
    for dtype in [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::U8,
        DType::I32,
        DType::U64,
        DType::Bool,
    ] {
        let error = Job::new(100, 100, dtype)
            .error("uint i = thread_position_in_grid.x; if (i % 10 != 7) out[i] = i > 3;");
        match error {
            SimError::Unwritten {
                first,
                count,
                total,
                ref output,
                ..
            } => {
                assert_eq!(
                    (first, count, total, output.as_str()),
                    (7, 10, 100, "out"),
                    "{dtype:?}"
                );
            }
            other => panic!("{dtype:?}: {other}"),
        }
    }
}

#[test]
fn any_bit_pattern_may_be_written() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let mut job = Job::new(1, all.len(), DType::U16).input(Input::of(&all, &[all.len()]));
    (job.grid, job.threadgroup) = ([all.len(), 1, 1], [1024, 1, 1]);
    assert_eq!(
        job.run::<u16>("uint i = thread_position_in_grid.x; out[i] = a[i];"),
        all
    );
    let bytes: Vec<u8> = (0..=255).collect();
    let job = Job::new(256, 256, DType::U8).input(Input::of(&bytes, &[256]));
    assert_eq!(
        job.run::<u8>("uint i = thread_position_in_grid.x; out[i] = a[i];"),
        bytes
    );
}

#[test]
fn writes_out_of_bounds() {
    let at =
        |index: &str| {
            match Job::new(10, 10, DType::F32).error(&format!(
        "int i = int(thread_position_in_grid.x); out[i] = 1.0f; if (i == 0) out[{index}] = 2.0f;"
    )) {
        SimError::OutOfBounds { buffer, element, total: 10, .. } => (buffer, element),
        other => panic!("{other}"),
    }
        };
    assert_eq!(at("i + 10"), ("out".to_owned(), 10));
    assert_eq!(at("i + 300"), ("out".to_owned(), 300));
    assert_eq!(at("i - 1"), ("out".to_owned(), -1));
}

#[test]
fn writes_to_inputs() {
    let a = [1.0f32, 2.0, 3.0];
    let job = Job::new(1, 1, DType::F32).input(Input::of(&a, &[3]));
    let error = job.error(
        "device float* p = (device float*)a; p[2] = 9.0f; out[thread_position_in_grid.x] = 0.0f;",
    );
    assert!(
        matches!(error, SimError::InputWritten { element: 2, .. }),
        "{error}"
    );
    let error = job.error(
        "device float* p = (device float*)a; p[3] = 9.0f; out[thread_position_in_grid.x] = 0.0f;",
    );
    assert!(
        matches!(
            error,
            SimError::OutOfBounds {
                element: 3,
                total: 3,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn reads_out_of_bounds_give_nan() {
    let a = [1.0f32; 9];
    let job = Job::new(2, 2, DType::F32).input(Input::of(&a, &[9]));
    let out = job.run::<f32>("uint i = thread_position_in_grid.x; out[i] = a[i + 8];");
    assert!(out[0] == 1.0 && out[1].is_nan());
}

#[test]
fn threadgroup_memory_starts_poisoned_in_every_group() {
    let body = "
        threadgroup float shared[8];
        uint i = thread_position_in_threadgroup.x;
        float before = shared[i];
        shared[i] = 1.0f;
        out[thread_position_in_grid.x] = isnan(before) ? 1.0f : 0.0f;";
    let mut job = Job::new(64, 64, DType::F32);
    job.threadgroup = [8, 1, 1];
    assert_eq!(job.run::<f32>(body), [1.0; 64]);
}

#[test]
fn writes_past_a_threadgroup_variable() {
    let body = "
        threadgroup float first[5], second[3];
        uint i = thread_position_in_threadgroup.x;
        first[i + 1] = 0.0f;
        second[0] = 1.0f;
        out[i] = second[0];";
    let error = Job::new(5, 5, DType::F32).error(body);
    assert!(
        error
            .to_string()
            .contains("first was written past its end, at byte 20 of 20"),
        "{error}"
    );
}

#[test]
fn missing_barrier_shows_in_one_of_the_orders() {
    let body = |barrier: &str| {
        format!(
            "threadgroup float shared[64];
             uint i = thread_position_in_threadgroup.x;
             shared[i] = float(i);
             {barrier}
             out[i] = shared[63 - i];"
        )
    };
    let run = |order, body: &str| {
        Job::new(64, 64, DType::F32)
            .run_on(&ordered(order), &kernel(0, body))
            .unwrap()
            .to_vec::<f32>()
            .unwrap()
    };
    let expected: Vec<f32> = (0..64u8).rev().map(f32::from).collect();
    for order in [Order::Forward, Order::Reverse, Order::Shuffled(1)] {
        assert_eq!(
            run(
                order,
                &body("threadgroup_barrier(mem_flags::mem_threadgroup);")
            ),
            expected,
            "{order:?}"
        );
        assert!(
            run(order, &body("")).iter().any(|x| x.is_nan()),
            "{order:?}"
        );
    }
}

#[test]
fn a_fault_leaves_the_simulator_usable() {
    let bad = "uint i = thread_position_in_threadgroup.x; out[i] = 0.0f; if (i == 0) threadgroup_barrier(mem_flags::mem_none);";
    let good = "uint i = thread_position_in_threadgroup.x; threadgroup_barrier(mem_flags::mem_none); out[i] = simd_sum(1.0f);";
    for _ in 0..3 {
        assert!(matches!(
            Job::new(64, 64, DType::F32).error(bad),
            SimError::Missing { .. }
        ));
        assert_eq!(Job::new(64, 64, DType::F32).run::<f32>(good), [32.0; 64]);
    }
}
