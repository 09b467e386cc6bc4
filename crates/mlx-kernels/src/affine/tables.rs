//! The crossovers between kernels: data, with the origin of each table beside it.

use std::ops::RangeInclusive;

use mlx_op::{Backend, DeviceProfile};

use super::problem::Problem;

/// A kernel that a rule may name. A rule whose kernel cannot take a product is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Stock,
    Rows,
    Tensor,
    Mma,
    SplitMma,
}

/// The kernel for a range of rows and bit widths. The first rule that applies wins.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub rows: RangeInclusive<i32>,
    pub bits: RangeInclusive<i32>,
    pub choice: Choice,
}

impl Rule {
    pub(crate) fn applies(&self, problem: &Problem) -> bool {
        self.rows.contains(&problem.rows) && self.bits.contains(&problem.bits)
    }
}

/// The rules of one kind of device.
#[derive(Debug, Clone)]
pub struct Table {
    /// Where the crossovers come from.
    pub origin: &'static str,
    pub(crate) rules: &'static [Rule],
}

const fn rule(rows: RangeInclusive<i32>, choice: Choice) -> Rule {
    Rule {
        rows,
        bits: 2..=8,
        choice,
    }
}

/// Stock at one row, where MLX's matvec decodes each weight once anyway. The split kernel's gain
/// above 8 rows is measured (M1 Max, 3 bits, 5120 to 10240: 1.48 times stock at 9 rows, 1.97 at 16,
/// even from 32 on); the kernels for 2 to 8 rows are not measured on any Apple GPU.
static METAL: Table = Table {
    origin: "9 to 31 rows: M1 Max, 3 bits; 1 to 8 rows: not measured",
    rules: &[
        rule(1..=1, Choice::Stock),
        rule(2..=4, Choice::Rows),
        rule(2..=8, Choice::Mma),
        rule(9..=31, Choice::SplitMma),
    ],
};

/// The tensor-core body was 1.2 to 6.5 times as fast as stock from 1 to 7 rows and 1.75 to 2.5 times at
/// 8, but 0.8 times at 8 rows of 5120 x 5120, where launching it takes longer than its work. Float32
/// activations, which it does not take, have the multi-row body. The matrix-unit bodies emulate the unit with
/// shuffles on CUDA and are not for speed there. Measured with `mlxk bench 17408x5120 --every-kernel`;
/// the runs are in `benches/results/h200`.
static CUDA: Table = Table {
    origin: "H200, 3 and 4 bits, bfloat16, 17408x5120 and 5120x5120",
    rules: &[rule(1..=8, Choice::Tensor), rule(2..=7, Choice::Rows)],
};

/// The simulator is there to run kernels, so each gets the rows that it is made for.
static SIM: Table = Table {
    origin: "every kernel in its range, for coverage",
    rules: &[
        rule(1..=1, Choice::Mma),
        rule(2..=4, Choice::Rows),
        rule(5..=8, Choice::Mma),
        rule(1..=i32::MAX, Choice::SplitMma),
        rule(2..=8, Choice::Rows),
    ],
};

static CPU: Table = Table {
    origin: "the SIMD code takes every product",
    rules: &[],
};

/// The table that plans for `profile` follow.
pub fn for_device(profile: &DeviceProfile) -> &'static Table {
    match profile.backend {
        Backend::Metal => &METAL,
        Backend::Cuda => &CUDA,
        Backend::Sim => &SIM,
        Backend::Cpu => &CPU,
    }
}
