//! Broken copies of the shaders: each kind of fault is caught by running the kernel on a small
//! problem and comparing with the reference.

mod sim;

use metal_sim::{DType, SimError};
use mlx_kernels::shaders::{AFFINE_MMA, AFFINE_ROWS, AFFINE_SPLIT_MMA, Shader, Text};
use sim::affine::{Kernel, NARROW, Problem, Shape};
use sim::{simulator, source_of};

/// How a fault came to light.
#[derive(Debug)]
enum Caught {
    /// The simulator refused the run.
    Run(SimError),
    /// The result is outside the bounds.
    Result,
    /// Not at all.
    Nothing,
}

fn shader(kernel: Kernel) -> &'static Shader {
    match kernel {
        Kernel::Rows => &AFFINE_ROWS,
        Kernel::Mma => &AFFINE_MMA,
        Kernel::Split { .. } => &AFFINE_SPLIT_MMA,
    }
}

/// Runs `kernel` with `there` replaced by `faulty`, in the body or in a header.
fn plant(kernel: Kernel, there: &str, faulty: &str) -> Caught {
    let Text { header, body } = shader(kernel).metal();
    let found = header.matches(there).count() + body.matches(there).count();
    assert_eq!(found, 1, "`{there}` stands once in {kernel:?}");
    let broken = Text {
        header: header.replace(there, faulty),
        body: body.replace(there, faulty),
    };
    // A tail of one column, an unfinished threadgroup, and fewer rows than a block.
    let n = if kernel == Kernel::Rows { 12 } else { 24 };
    let problem = Problem::random(Shape::new(5, n, 800, 3, 32, DType::F32), 50);
    match problem.run_with(simulator(), &source_of(shader(kernel), broken), kernel) {
        Err(error) => Caught::Run(error),
        Ok(y) => problem
            .check(kernel, &y)
            .map_or(Caught::Result, |()| Caught::Nothing),
    }
}

#[test]
fn the_sound_kernels_pass() {
    for kernel in [Kernel::Rows, Kernel::Mma, NARROW] {
        let outcome = plant(kernel, "const int lane = int(", "const int lane = 0 + int(");
        assert!(
            matches!(outcome, Caught::Nothing),
            "{kernel:?}: {outcome:?}"
        );
    }
}

#[test]
fn wrong_lane_map() {
    let outcome = plant(
        Kernel::Mma,
        "((lane >> 2) & 1) * 2 + ((lane >> 1) & 1)",
        "((lane >> 1) & 1) * 2 + ((lane >> 2) & 1)",
    );
    assert!(matches!(outcome, Caught::Result), "{outcome:?}");
    let outcome = plant(
        NARROW,
        "((lane >> 3) & 1) * 4 + (lane & 1) * 2",
        "(lane & 1) * 4 + ((lane >> 3) & 1) * 2",
    );
    assert!(matches!(outcome, Caught::Result), "{outcome:?}");
    let outcome = plant(
        Kernel::Rows,
        "int k = VPT * lane;",
        "int k = VPT * (lane ^ 1);",
    );
    assert!(
        matches!(outcome, Caught::Nothing),
        "which lane takes a chunk is of no account: {outcome:?}"
    );
    let outcome = plant(
        Kernel::Rows,
        "int k = VPT * lane;",
        "int k = VPT * (lane | 1);",
    );
    assert!(matches!(outcome, Caught::Result), "{outcome:?}");
}

#[test]
fn missing_barrier() {
    let outcome = plant(
        NARROW,
        "threadgroup_barrier(mem_flags::mem_threadgroup);",
        "",
    );
    assert!(matches!(outcome, Caught::Result), "{outcome:?}");
}

#[test]
fn barrier_that_some_threads_miss() {
    let outcome = plant(
        NARROW,
        "threadgroup_barrier(mem_flags::mem_threadgroup);",
        "if (split == 0) { return; }\nthreadgroup_barrier(mem_flags::mem_threadgroup);",
    );
    assert!(
        matches!(outcome, Caught::Run(SimError::Missing { .. })),
        "{outcome:?}"
    );
}

#[test]
fn column_past_the_outputs() {
    for kernel in [Kernel::Rows, Kernel::Mma] {
        let outcome = plant(
            kernel,
            "if (first_output >= N) {",
            "if (first_output >= N + 8) {",
        );
        // Rows lie next to each other: only the last row's surplus leaves the array.
        assert!(
            matches!(outcome, Caught::Run(_) | Caught::Result),
            "{kernel:?}: {outcome:?}"
        );
    }
}

#[test]
fn row_past_the_end() {
    let outcome = plant(
        Kernel::Mma,
        "if (m < M) {\n      y[",
        "if (m < M + 1) {\n      y[",
    );
    assert!(
        matches!(outcome, Caught::Run(SimError::OutOfBounds { .. })),
        "{outcome:?}"
    );
    let outcome = plant(NARROW, "if (m < rows) {", "if (m <= rows) {");
    assert!(
        matches!(outcome, Caught::Run(SimError::OutOfBounds { .. })),
        "{outcome:?}"
    );
}

#[test]
fn skipped_tail() {
    let outcome = plant(NARROW, "base < K; base +=", "base + 256 <= K; base +=");
    assert!(matches!(outcome, Caught::Result), "{outcome:?}");
    let outcome = plant(Kernel::Mma, "base < K; base +=", "base + 256 <= K; base +=");
    assert!(matches!(outcome, Caught::Result), "{outcome:?}");
    let outcome = plant(Kernel::Rows, "k < K; k +=", "k + 512 <= K; k +=");
    assert!(matches!(outcome, Caught::Result), "{outcome:?}");
}

#[test]
fn tail_that_reads_on() {
    // Dead columns of the weights read the next row's codes and scales, or poison behind the last.
    let outcome = plant(
        Kernel::Mma,
        "if (K % 256 == 0 || column_k < K) {",
        "if (true) {",
    );
    assert!(matches!(outcome, Caught::Result), "{outcome:?}");
}

#[test]
fn row_left_out() {
    let outcome = plant(NARROW, "if (m < rows) {", "if (m + 1 < rows) {");
    assert!(
        matches!(outcome, Caught::Run(SimError::Unwritten { .. })),
        "{outcome:?}"
    );
}
