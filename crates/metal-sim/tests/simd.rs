//! Operations among lanes, against plain Rust.

mod common;

use common::Job;
use half::f16;
use metal_sim::{DType, Input, TemplateArg};

const LANES: usize = 32;

fn numbers(count: usize) -> Vec<i32> {
    (0..count as i32).map(|i| (i * 37 + 11) % 61 - 30).collect()
}

/// What a lane must get, given the values of all lanes.
type Expected<'a> = &'a dyn Fn(&[i32], usize) -> i32;

/// Evaluates expressions of `int v` and `uint lane` in every one of `lanes` lanes, in one kernel.
fn check(lanes: usize, cases: &[(&str, Expected<'_>)]) {
    let a = numbers(lanes);
    let lines: Vec<String> = (cases.iter().enumerate())
        .map(|(i, (expression, _))| format!("out[{i} * LANES + lane] = int({expression});"))
        .collect();
    let body = format!(
        "uint lane = thread_index_in_simdgroup;
         int v = a[lane];
         {}",
        lines.join("\n")
    );
    let out = Job::new(lanes, lanes * cases.len(), DType::I32)
        .input(Input::of(&a, &[lanes]))
        .template("LANES", TemplateArg::Int(lanes as i32))
        .run::<i32>(&body);
    for ((expression, expected), found) in cases.iter().zip(out.chunks(lanes)) {
        let expected: Vec<i32> = (0..lanes).map(|lane| expected(&a, lane)).collect();
        assert_eq!(found, expected, "{expression} of {lanes} lanes");
    }
}

#[test]
fn shuffles() {
    let down = |lane: usize, width: usize, by: usize| {
        if lane % width + by < width {
            lane + by
        } else {
            lane
        }
    };
    check(
        LANES,
        &[
            ("simd_shuffle(v, (lane * 7 + 3) % 32)", &|a, lane| {
                a[(lane * 7 + 3) % 32]
            }),
            ("simd_shuffle_xor(v, 5)", &|a, lane| a[lane ^ 5]),
            ("simd_shuffle_down(v, 3)", &|a, lane| a[down(lane, 32, 3)]),
            ("simd_shuffle_up(v, 3)", &|a, lane| {
                a[if lane >= 3 { lane - 3 } else { lane }]
            }),
            ("simd_shuffle_rotate_down(v, 3)", &|a, lane| {
                a[(lane + 3) % 32]
            }),
            ("simd_shuffle_rotate_up(v, 3)", &|a, lane| {
                a[(lane + 29) % 32]
            }),
            ("simd_shuffle_and_fill_down(v, v, 3)", &|a, lane| {
                a[(lane + 3) % 32]
            }),
            ("simd_shuffle_and_fill_up(v, v, 3)", &|a, lane| {
                a[(lane + 29) % 32]
            }),
            ("simd_broadcast(v, 17)", &|a, _| a[17]),
            ("simd_broadcast_first(v)", &|a, _| a[0]),
            ("quad_shuffle_xor(v, 1)", &|a, lane| a[lane ^ 1]),
            ("quad_broadcast(v, 2)", &|a, lane| a[lane / 4 * 4 + 2]),
            ("quad_shuffle_down(v, 1)", &|a, lane| a[down(lane, 4, 1)]),
        ],
    );
}

#[test]
fn shuffles_of_wider_and_narrower_types() {
    check(
        LANES,
        &[
            ("simd_shuffle_xor(long(v) << 33, 1) >> 33", &|a, lane| {
                a[lane ^ 1]
            }),
            ("simd_shuffle_xor(float4(v, 0, 0, v), 2).w", &|a, lane| {
                a[lane ^ 2]
            }),
            ("simd_shuffle_xor(half(v), 4)", &|a, lane| a[lane ^ 4]),
            ("simd_shuffle_xor(v > 0, 4)", &|a, lane| {
                i32::from(a[lane ^ 4] > 0)
            }),
        ],
    );
}

#[test]
fn reductions_over_whole_and_partial_simdgroups() {
    let sign = |v: i32| if v == 0 { 1 } else { v % 2 * 2 - 1 };
    for lanes in [1, 5, 31, 32] {
        check(
            lanes,
            &[
                ("simd_sum(v)", &|a, _| a.iter().sum()),
                ("simd_min(v)", &|a, _| *a.iter().min().unwrap()),
                ("simd_max(v)", &|a, _| *a.iter().max().unwrap()),
                ("simd_and(v)", &|a, _| a.iter().fold(-1, |all, v| all & v)),
                ("simd_or(v)", &|a, _| a.iter().fold(0, |all, v| all | v)),
                ("simd_xor(v)", &|a, _| a.iter().fold(0, |all, v| all ^ v)),
                ("simd_product(v == 0 ? 1 : v % 2 * 2 - 1)", &|a, _| {
                    a.iter().map(|&v| sign(v)).product()
                }),
                ("simd_any(v == 11)", &|a, _| i32::from(a.contains(&11))),
                ("simd_all(v > -31)", &|_, _| 1),
                ("ulong(simd_ballot(v > 0)) & 1", &|a, _| i32::from(a[0] > 0)),
                (
                    "popcount(uint(ulong(simd_active_threads_mask())))",
                    &|a, _| a.len() as i32,
                ),
                ("simd_is_first()", &|_, lane| i32::from(lane == 0)),
            ],
        );
    }
}

#[test]
fn prefixes_and_quads() {
    check(
        LANES,
        &[
            ("simd_prefix_inclusive_sum(v)", &|a, lane| {
                a[..=lane].iter().sum()
            }),
            ("simd_prefix_exclusive_sum(v)", &|a, lane| {
                a[..lane].iter().sum()
            }),
            ("quad_sum(v)", &|a, lane| {
                a[lane / 4 * 4..][..4].iter().sum()
            }),
            ("quad_max(v)", &|a, lane| {
                *a[lane / 4 * 4..][..4].iter().max().unwrap()
            }),
        ],
    );
}

#[test]
fn sum_is_a_balanced_tree_and_rounds_to_the_type() {
    let a: Vec<f16> = (0..LANES)
        .map(|i| f16::from_f32(1.0 + i as f32 / 7.0))
        .collect();
    let job = Job::new(LANES, 1, DType::F16).input(Input::of(&a, &[LANES]));
    let out = job.run::<f16>("half s = simd_sum(a[thread_index_in_simdgroup]); if (thread_index_in_simdgroup == 0) out[0] = s;");
    let mut level = a.clone();
    while level.len() > 1 {
        level = level.chunks(2).map(|pair| pair[0] + pair[1]).collect();
    }
    assert_eq!(out, level);
}

#[test]
fn lanes_that_returned_take_no_part() {
    let body = "
        uint lane = thread_index_in_simdgroup;
        if (lane >= 20) { out[lane] = 0; return; }
        float far = simd_shuffle(float(lane), 25);
        out[lane] = simd_sum(1.0f) + (isnan(far) ? 100.0f : 0.0f);";
    let out = Job::new(LANES, LANES, DType::F32).run::<f32>(body);
    let expected: Vec<f32> = (0..LANES)
        .map(|lane| if lane < 20 { 120.0 } else { 0.0 })
        .collect();
    assert_eq!(out, expected);
}

#[test]
fn simdgroups_keep_apart() {
    let body = "
        uint i = thread_position_in_threadgroup.x;
        float total = 0.0f;
        for (uint r = 0; r < 3 + 2 * simdgroup_index_in_threadgroup; r++) total += simd_sum(1.0f);
        out[i] = total;";
    let out = Job::new(70, 70, DType::F32).run::<f32>(body);
    let expected: Vec<f32> = (0..70).map(|i| [96.0, 160.0, 42.0][i / 32]).collect();
    assert_eq!(out, expected);
}
