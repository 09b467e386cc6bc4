//! Verification notices faults in the shader that multiplies few rows by codes along the outputs.

#[allow(dead_code, reason = "not every test file starts from the context")]
mod faults;

use faults::{caught, failures};
use mlx_kernels::shaders::TRELLIS_SCATTER;
use mlxk::verify::Kernel;

const GENERAL: Kernel = Kernel::TrellisScatter;
const BALANCED: Kernel = Kernel::TrellisScatterBalanced3;
const FACTORED: Kernel = Kernel::TrellisDownFactored;

/// Each change, alone, fails some of the kernel's cases.
fn all_caught(kernel: Kernel, changes: &[(&'static str, &'static str)]) {
    for &(there, faulty) in changes {
        caught(kernel, &TRELLIS_SCATTER, there, faulty);
    }
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn sound_copies_hold() {
    let lane = "const int lane = int(";
    for kernel in [GENERAL, BALANCED, FACTORED] {
        let same = "const int lane = 0 + int(";
        assert_eq!(failures(kernel, &TRELLIS_SCATTER, lane, same), []);
    }
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn positions_of_another_lane() {
    all_caught(
        GENERAL,
        &[
            ("(32 * word + K - 1) / K", "32 * word / K"),
            ("(32 * word + 31 + K) / K", "(32 * word + 31) / K"),
            ("PER == 0 ? (31 + K) / K : PER", "PER == 0 ? 32 / K : PER"),
        ],
    );
    all_caught(
        BALANCED,
        &[(
            "share.first = PER * lane;",
            "share.first = PER * (lane | 1);",
        )],
    );
    all_caught(
        FACTORED,
        &[("TB - 1 - share.first - position", "share.first + position")],
    );
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn rows_left_out_or_counted_twice() {
    let changes = [
        ("row >= batch && row < end", "row >= batch && row < R"),
        ("row >= batch && row < end", "row < end"),
        (
            "min(row, R - ROWS_AHEAD)",
            "max(min(row, R - ROWS_AHEAD) - 1, 0)",
        ),
        ("min(begin + SPLIT_ROWS, R)", "begin + SPLIT_ROWS"),
    ];
    all_caught(GENERAL, &changes[..2]);
    all_caught(BALANCED, &changes[2..]);
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn rows_of_x_mixed_up() {
    for kernel in [GENERAL, BALANCED] {
        all_caught(
            kernel,
            &[(
                "(first_row + m) * SPLITS + split",
                "first_row * SPLITS + split",
            )],
        );
    }
    all_caught(FACTORED, &[("size_t(first_row + m)", "size_t(first_row)")]);
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn a_scale_at_the_wrong_place() {
    all_caught(
        FACTORED,
        &[("input * (scale * code_step())", "input * scale")],
    );
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn tables_that_are_read_too_early_or_in_part() {
    let barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);";
    let (part, short) = ("state += threads", "state += 2u * threads");
    for kernel in [GENERAL, BALANCED] {
        all_caught(kernel, &[(barrier, ""), (part, short)]);
    }
    let (code, other) = (
        "Entry(converted_code(state))",
        "Entry(add_bytes(state_word(state), 0u))",
    );
    all_caught(BALANCED, &[(code, other)]);
}
