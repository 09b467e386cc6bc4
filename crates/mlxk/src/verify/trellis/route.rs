//! The kernels that multiply by one coded weight, or expand it.

use mlx_kernels::trellis::{self, Selection, TrellisWeight, kernels, kernels::Pass};
use mlx_rs::{Array, Dtype};
use trellis_codec::{Contract, Layout};

use super::super::{Failure, Kernel};
use super::Scatter;

/// A kernel, and how it is told to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The stored matrix.
    Expand(Selection),
    /// The stored matrix in bfloat16, four weights a thread.
    Expand4,
    /// The product of up to 4 rows with codes along the inputs, each decoding for itself.
    Reduce(Selection),
    /// The same, a weight being decoded once for all rows.
    ReduceShared(Selection),
    /// The product of up to 4 rows with codes along the outputs, on ordinary lanes.
    Scatter(Scatter),
    /// The product with codes along the outputs on the matrix unit, up to 8 rows, in either layout.
    DownMma,
    /// The same for any number of rows.
    DownMmaWide(Pass),
    /// The product of 5 to 32 rows in tiles, with codes along the inputs.
    PrefillTiled,
    /// The product of 5 to 8 rows in parts, with codes along the outputs.
    PrefillSplitk,
    /// The product of 5 to 15 rows on ordinary lanes, with codes along the inputs.
    PrefillWide,
    /// The product by the CPU's SIMD code.
    Cpu,
}

impl Route {
    /// The kernel that is launched.
    pub fn kernel(self) -> Kernel {
        match self {
            Self::Expand(_) => Kernel::TrellisExpand,
            Self::Expand4 => Kernel::TrellisExpand4,
            Self::Reduce(_) | Self::ReduceShared(_) => Kernel::TrellisReduce,
            Self::Scatter(form) => form.kernel(),
            Self::DownMma => Kernel::TrellisDownMma,
            Self::DownMmaWide(_) => Kernel::TrellisDownMmaWide,
            Self::PrefillTiled => Kernel::TrellisPrefillTiled,
            Self::PrefillSplitk => Kernel::TrellisPrefillSplitk,
            Self::PrefillWide => Kernel::TrellisPrefillWide,
            Self::Cpu => Kernel::TrellisCpu,
        }
    }

    /// What its weights are.
    pub(super) fn contract(self) -> Contract {
        match self {
            Self::Expand(_)
            | Self::Expand4
            | Self::PrefillTiled
            | Self::PrefillSplitk
            | Self::PrefillWide => Contract::Exact,
            Self::Reduce(selection) | Self::ReduceShared(selection) => lane_contract(selection),
            Self::Scatter(form) => form.contract(),
            Self::DownMma | Self::DownMmaWide(_) | Self::Cpu => Contract::Factored,
        }
    }

    /// Whether products see weights that are rounded to x's type.
    pub(super) fn rounds_weights(self) -> bool {
        matches!(
            self,
            Self::PrefillTiled | Self::PrefillSplitk | Self::PrefillWide
        )
    }

    /// The stored matrix `[R, C]`.
    pub(super) fn expand(self, weight: &TrellisWeight, dtype: Dtype) -> Result<Array, Failure> {
        match self {
            Self::Expand(selection) => Ok(kernels::expand(weight, dtype, selection)?),
            Self::Expand4 => Ok(kernels::expand4(weight)?),
            _ => Err(Failure::run("the route is a product")),
        }
    }

    /// The product `[M, outputs]` with x `[M, inputs]`.
    pub(super) fn multiply(self, x: &Array, weight: &TrellisWeight) -> Result<Array, Failure> {
        match self {
            Self::Expand(_) | Self::Expand4 => Err(Failure::run("the route is an expansion")),
            Self::Reduce(selection) => Ok(kernels::reduce(x, weight, selection)?),
            Self::ReduceShared(selection) => Ok(kernels::reduce_shared(x, weight, selection)?),
            Self::Scatter(form) => form.multiply(x, weight),
            Self::DownMma => Ok(match weight.geometry().layout() {
                Layout::Rows => kernels::down_mma(x, weight)?,
                Layout::BlockPairs => kernels::down_k3i_mma(x, weight)?,
            }),
            Self::DownMmaWide(pass) => Ok(match weight.geometry().layout() {
                Layout::Rows => kernels::down_mma_wide(x, weight, pass)?,
                Layout::BlockPairs => kernels::down_k3i_mma_wide(x, weight, pass)?,
            }),
            Self::PrefillTiled => Ok(kernels::prefill_tiled(x, weight)?),
            Self::PrefillSplitk => Ok(kernels::prefill_splitk(x, weight)?),
            Self::PrefillWide => Ok(kernels::prefill_wide(x, weight)?),
            Self::Cpu => Ok(trellis::matmul(x, weight)?),
        }
    }
}

/// What the weights of a selection are in the products on ordinary lanes.
pub(super) fn lane_contract(selection: Selection) -> Contract {
    match selection.number() {
        0..=3 => Contract::ExactBf16,
        5 => Contract::Exact,
        _ => Contract::Unrefined,
    }
}
