//! How a product with a trellis weight is computed.

use std::fmt;

use mlx_op::Backend;

use super::TrellisWeight;
use crate::Context;

/// Weights that the CPU code decodes at a time; blocks must be whole groups of them.
const CPU_GROUP: usize = 16;

/// A way to compute a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plan {
    /// The SIMD code: weights take part as exact integer codes, sums are float32, and a row's result
    /// does not depend on the rows beside it.
    Cpu,
    /// The weight is decoded to float32 by MLX operations, each time, and multiplied by the stock
    /// product, in float32 too.
    Expand,
    /// As [`Plan::Expand`] with a stock product for each row, so that no row depends on another.
    ExpandByRow,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu simd trellis",
            Self::Expand => "expand + mlx matmul",
            Self::ExpandByRow => "expand + mlx matmul by row",
        })
    }
}

/// The plan for products with `weight` under `context`.
///
/// The CPU back end takes the SIMD code, except for blocks that are no multiple of 16 weights. The
/// other back ends expand.
pub fn plan(context: &Context, weight: &TrellisWeight) -> Plan {
    let whole_groups = weight.geometry().format().block().is_multiple_of(CPU_GROUP);
    match (context.backend(), context.options().batch_invariant) {
        (Backend::Cpu, _) if whole_groups => Plan::Cpu,
        (_, false) => Plan::Expand,
        (_, true) => Plan::ExpandByRow,
    }
}
