//! The products of up to 4 rows with codes along the outputs, on ordinary lanes.

use mlx_kernels::trellis::kernels::{self, ScatterOptions};
use mlx_kernels::trellis::{Selection, TrellisWeight};
use mlx_rs::Array;
use trellis_codec::{Contract, Layout};

use super::super::{Failure, Kernel};
use super::route::lane_contract;

/// A form of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scatter {
    /// Each row of x decodes for itself.
    Base(Selection, ScatterOptions),
    /// A weight is decoded once for all rows.
    Shared(Selection),
    /// 3-bit codes, each row for itself.
    Balanced(ScatterOptions),
    /// 3-bit codes, decoded once for all rows, or looked up in a table of integer codes.
    BalancedShared {
        /// Whether there is the table.
        code_table: bool,
    },
    /// Integer codes, decoded once for all rows, in either layout.
    Factored,
}

impl Scatter {
    /// The kernel, as users know it. All have one shader.
    pub(super) fn kernel(self) -> Kernel {
        match self {
            Self::Base(..) | Self::Shared(_) => Kernel::TrellisScatter,
            Self::Balanced(_) | Self::BalancedShared { .. } => Kernel::TrellisScatterBalanced3,
            Self::Factored => Kernel::TrellisDownFactored,
        }
    }

    /// What its weights are.
    pub(super) fn contract(self) -> Contract {
        match self {
            Self::Base(selection, _) | Self::Shared(selection) => lane_contract(selection),
            Self::Balanced(_) | Self::BalancedShared { .. } => Contract::Unrefined,
            Self::Factored => Contract::Factored,
        }
    }

    /// The product `[M, outputs]` with x `[M, inputs]`.
    pub(super) fn multiply(self, x: &Array, weight: &TrellisWeight) -> Result<Array, Failure> {
        Ok(match self {
            Self::Base(selection, options) => kernels::scatter(x, weight, selection, options)?,
            Self::Shared(selection) => kernels::scatter_shared(x, weight, selection)?,
            Self::Balanced(options) => kernels::scatter_balanced3(x, weight, options)?,
            Self::BalancedShared { code_table } => {
                kernels::scatter_balanced3_shared(x, weight, code_table)?
            }
            Self::Factored => match (weight.geometry().layout(), x.dim(0)) {
                (Layout::Rows, 1) => kernels::down_factored_row(x, weight)?,
                (Layout::Rows, _) => kernels::down_factored_rows(x, weight)?,
                (Layout::BlockPairs, 1) => kernels::down_k3i_factored_row(x, weight)?,
                (Layout::BlockPairs, _) => kernels::down_k3i_factored_rows(x, weight)?,
            },
        })
    }
}
