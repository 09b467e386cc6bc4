//! Verification notices faults in the shaders for trellis codes on the matrix unit, and in an expansion.

#[allow(dead_code, reason = "not every test file starts from the context")]
mod faults;

use faults::{caught, failures};
use mlx_kernels::shaders::{
    TRELLIS_DOWN_MMA, TRELLIS_DOWN_MMA_WIDE, TRELLIS_EXPAND4, TRELLIS_GATEUP_MMA,
};
use mlxk::verify::Kernel;

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn sound_copies_hold() {
    let lane = "const int lane = int(";
    for (kernel, shader) in [
        (Kernel::TrellisDownMma, TRELLIS_DOWN_MMA),
        (Kernel::TrellisDownMmaWide, TRELLIS_DOWN_MMA_WIDE),
        (Kernel::TrellisGateupMma, TRELLIS_GATEUP_MMA),
    ] {
        assert_eq!(
            failures(kernel, &shader, lane, "const int lane = 0 + int("),
            []
        );
    }
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn an_expansion_in_another_order() {
    for (there, faulty) in [
        ("within / 128 % TILE", "within % TILE"),
        (
            "block[word + 1 == WORDS ? 0 : word + 1]",
            "block[(word + 1) % (WORDS - 1)]",
        ),
        ("(3 - i) * K", "i * K"),
    ] {
        caught(Kernel::TrellisExpand4, &TRELLIS_EXPAND4, there, faulty);
    }
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn windows_that_are_cut() {
    let (kernel, shader) = (Kernel::TrellisDownMma, TRELLIS_DOWN_MMA);
    for (there, faulty) in [
        (
            "word + i < WORDS ? word + i : word + i - WORDS",
            "min(word + i, WORDS - 1)",
        ),
        (
            "offset + L > 32 ? windows.joints",
            "offset + L > 33 ? windows.joints",
        ),
    ] {
        caught(kernel, &shader, there, faulty);
    }
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn rows_of_codes_past_the_last() {
    let (kernel, shader) = (Kernel::TrellisDownMma, TRELLIS_DOWN_MMA);
    for (there, faulty) in [
        ("row < M && input < share.end", "row < M && input < R + 1"),
        ("min(share.row + ROWS, R)", "share.row + ROWS"),
    ] {
        caught(kernel, &shader, there, faulty);
    }
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn blocks_of_rows() {
    let (kernel, shader) = (Kernel::TrellisDownMmaWide, TRELLIS_DOWN_MMA_WIDE);
    for (there, faulty) in [
        (
            "8 * MT * int(threadgroup_position_in_grid.z)",
            "8 * int(threadgroup_position_in_grid.z)",
        ),
        ("if (m < rows) {", "if (m + 1 < rows) {"),
        ("threadgroup_barrier(mem_flags::mem_threadgroup);", ""),
    ] {
        caught(kernel, &shader, there, faulty);
    }
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn gate_and_up_mixed_up() {
    let (kernel, shader) = (Kernel::TrellisGateupMma, TRELLIS_GATEUP_MMA);
    for (there, faulty) in [
        (
            "load_run<KG, TB>(gate_row, base / 32 + column + c,",
            "load_run<KG, TB>(gate_row, base / 32 + (column + c) % 4,",
        ),
        (
            "size_t(base + 32 * row + 4 * v)",
            "size_t(base + 4 * (row + 8 * v))",
        ),
        ("= float_swiglu(gate, up)", "= float_swiglu(up, gate)"),
        ("if (m < rows) {", "if (m + 1 < rows) {"),
        (
            "8 * MT * int(threadgroup_position_in_grid.z)",
            "8 * int(threadgroup_position_in_grid.z)",
        ),
    ] {
        caught(kernel, &shader, there, faulty);
    }
}
