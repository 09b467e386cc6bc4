//! Verification notices faults in the shaders that multiply a prompt's rows by trellis codes.

#[allow(dead_code, reason = "not every test file starts from the context")]
mod faults;

use faults::{caught, failures};
use mlx_kernels::shaders::{
    Shader, TRELLIS_PREFILL_SPLITK, TRELLIS_PREFILL_TILED, TRELLIS_PREFILL_WIDE,
    TRELLIS_SPLITK_FOLD,
};
use mlxk::verify::Kernel;

const TILED: (Kernel, Shader) = (Kernel::TrellisPrefillTiled, TRELLIS_PREFILL_TILED);
const SPLIT: (Kernel, Shader) = (Kernel::TrellisPrefillSplitk, TRELLIS_PREFILL_SPLITK);
const FOLD: (Kernel, Shader) = (Kernel::TrellisPrefillSplitk, TRELLIS_SPLITK_FOLD);
const WIDE: (Kernel, Shader) = (Kernel::TrellisPrefillWide, TRELLIS_PREFILL_WIDE);

/// Each change, alone, fails some of the kernel's cases.
fn all_caught((kernel, shader): (Kernel, Shader), changes: &[(&'static str, &'static str)]) {
    for &(there, faulty) in changes {
        caught(kernel, &shader, there, faulty);
    }
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn sound_copies_hold() {
    let lane = "const int lane = int(";
    for (kernel, shader) in [TILED, SPLIT, WIDE] {
        assert_eq!(
            failures(kernel, &shader, lane, "const int lane = 0 + int("),
            []
        );
    }
    let (kernel, shader) = FOLD;
    let sum = "float sum = 0.0f;";
    assert_eq!(
        failures(kernel, &shader, sum, "float sum = 0.0f + 0.0f;"),
        []
    );
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn columns_in_another_order_or_cut() {
    let changes = [
        ("(N - 1 - i) * K", "i * K"),
        (
            "index < WORDS ? index : index - WORDS",
            "min(index, WORDS - 1)",
        ),
        ("bit % 32 + L > 32 ?", "bit % 32 + L > 33 ?"),
    ];
    all_caught(TILED, &changes);
    // Four columns of 3 bits lie in one word, once it is shifted.
    all_caught(WIDE, &changes[..2]);
    all_caught(SPLIT, &changes[..2]);
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn weights_rounded_too_early_or_not_at_all() {
    for form in [TILED, SPLIT] {
        let changes = [(
            "T(refined_value(column_state(states, i)) * scale);",
            "T(float(T(refined_value(column_state(states, i)))) * scale);",
        )];
        all_caught(form, &changes);
    }
    let weight = "float(T(refined_value(column_state(states, i)) * scale));";
    let unrounded = "refined_value(column_state(states, i)) * scale;";
    all_caught(WIDE, &[(weight, unrounded)]);
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn tiles_that_are_not_waited_for() {
    for form in [TILED, SPLIT] {
        let changes = [
            (
                "threadgroup_barrier(mem_flags::mem_threadgroup);\n  multiply_tiles",
                "multiply_tiles",
            ),
            (
                "lane);\n  threadgroup_barrier(mem_flags::mem_threadgroup);\n}",
                "lane);\n}",
            ),
        ];
        all_caught(form, &changes);
    }
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn results_past_the_edges_or_missing() {
    let changes = [
        (
            "if (row < rows && output + c < R)",
            "if (row <= rows && output + c < R)",
        ),
        ("output + c < R", "output + c <= R"),
        ("8 * (simdgroup % SG_N)", "8 * (simdgroup / SG_N)"),
        ("BM * int(threadgroup_position_in_grid.y)", "8 * BM"),
    ];
    all_caught(TILED, &changes);
    let changes = [
        (
            "if (row < rows && output + c < C)",
            "if (row + 1 < rows && output + c < C)",
        ),
        (
            "(size_t(part) * size_t(rows) + size_t(row))",
            "(size_t(part) + size_t(row))",
        ),
    ];
    all_caught(SPLIT, &changes);
    all_caught(WIDE, &[("output < R)", "output <= R)")]);
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn parts_that_are_left_out() {
    let end = "part == SPLITS - 1 ? R : (part + 1) * PARTITION";
    all_caught(SPLIT, &[(end, "(part + 1) * PARTITION")]);
    all_caught(FOLD, &[("part < SPLITS;", "part + 1 < SPLITS;")]);
    let changes = [
        ("vector < VECTORS;", "vector + LANES < VECTORS;"),
        ("distance = LANES / 2;", "distance = 16;"),
        ("distance = LANES / 2;", "distance = LANES / 4;"),
        ("results[m] += sum;", "results[m] = sum;"),
    ];
    all_caught(WIDE, &changes);
}
