//! Verification notices faults in the shaders for trellis codes along the inputs on ordinary lanes.

#[allow(dead_code, reason = "not every test file starts from the context")]
mod faults;

use faults::{caught, failures};
use mlx_kernels::shaders::{Shader, TRELLIS_GATEUP, TRELLIS_REDUCE};
use mlxk::verify::Kernel;

const REDUCE: (Kernel, Shader) = (Kernel::TrellisReduce, TRELLIS_REDUCE);
const GATEUP: (Kernel, Shader) = (Kernel::TrellisGateup, TRELLIS_GATEUP);
const FACTORED: (Kernel, Shader) = (Kernel::TrellisFactoredGateup, TRELLIS_GATEUP);

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
    for (kernel, shader) in [REDUCE, GATEUP, FACTORED] {
        let same = "const int lane = 0 + int(";
        assert_eq!(failures(kernel, &shader, lane, same), []);
    }
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn runs_that_are_cut_or_in_another_order() {
    let changes = [
        ("place == 0 ? block[0] : source[K]", "source[K]"),
        ("(31 - j) * K", "j * K"),
        ("run += 32", "run += 64"),
        ("if (offset + L > 32) {", "if (offset + L > 33) {"),
    ];
    all_caught(REDUCE, &changes);
    all_caught(FACTORED, &changes[..3]);
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn rows_past_the_last() {
    for form in [REDUCE, GATEUP, FACTORED] {
        all_caught(form, &[("if (row >= R) {", "if (row >= R + 3) {")]);
    }
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn rows_of_x_that_are_mixed_up() {
    let changes = [
        ("ROWS * int(threadgroup_position_in_grid.z)", "0"),
        ("size_t(m) * size_t(C)", "0"),
        ("CHAINS * m + e % CHAINS", "(CHAINS * m + e) % CHAINS"),
    ];
    all_caught(REDUCE, &changes);
    all_caught(GATEUP, &changes[..1]);
    all_caught(FACTORED, &changes[1..]);
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn another_order_of_a_sum() {
    // The bits are those of the sum over even and the sum over odd columns.
    all_caught(
        GATEUP,
        &[("CHAINS * m + e % CHAINS", "CHAINS * m + e / CHAINS")],
    );
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn weights_of_another_arithmetic() {
    let changes = [
        (
            "DECODE <= DECODE_TABLE_DEVICE ? round_to_bfloat(weight) : weight",
            "weight",
        ),
        (
            "DECODE <= DECODE_TABLE_DEVICE ? round_to_bfloat(weight) : weight",
            "round_to_bfloat(weight)",
        ),
        ("threadgroup_barrier(mem_flags::mem_threadgroup);", ""),
    ];
    all_caught(REDUCE, &changes);
    all_caught(FACTORED, &[("sum * (scale * code_step())", "sum * scale")]);
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn gate_and_up_in_each_others_place() {
    let changes = [
        ("float(up_scales[row])", "float(gate_scales[row])"),
        (
            "swiglu<TAIL>(T(gate), T(up))",
            "swiglu<TAIL>(T(up), T(gate))",
        ),
    ];
    all_caught(GATEUP, &changes);
    all_caught(FACTORED, &changes);
}

#[test]
#[ignore = "compiles many faulty kernels: scripts/test-faults"]
fn a_tail_with_other_roundings() {
    let changes = [
        (
            "const T activated = T(g * float(sigmoid));",
            "const float activated = g * float(sigmoid);",
        ),
        ("gate < 0 ?", "gate > 0 ?"),
        (
            "swiglu<TAIL>(T(gate), T(up))",
            "float_swiglu(T(gate), T(up))",
        ),
    ];
    all_caught(GATEUP, &changes);
}
