//! The kernels that join gate and up.

use mlx_kernels::trellis::kernels::{self, MixedOptions, Tail};
use mlx_kernels::trellis::{Selection, TrellisWeight};
use mlx_rs::Array;
use trellis_codec::Contract;

use super::super::super::{Failure, Kernel};
use super::super::route::lane_contract;

/// A kernel, and how it is told to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Equal widths, each row decoding for itself.
    Base(Selection),
    /// Equal widths, a weight being decoded once for all rows.
    Shared(Selection),
    /// Equal widths and one row, values looked up.
    Table,
    /// Any widths.
    Mixed(MixedOptions),
    /// Sums of integer codes: equal widths, one row.
    FactoredRow,
    /// Sums of integer codes: equal widths, 2 to 4 rows.
    FactoredRows,
    /// Sums of integer codes: different widths.
    MixedFactored,
    /// Sums of integer codes on the matrix unit: any widths, up to 8 rows.
    Mma,
    /// The same for any number of rows, so many blocks of 8 sharing a decoded weight.
    MmaWide(i32),
}

impl Form {
    /// The kernel that is launched.
    pub fn kernel(self) -> Kernel {
        match self {
            Self::Base(_) | Self::Shared(_) | Self::Table | Self::Mixed(_) => Kernel::TrellisGateup,
            Self::FactoredRow | Self::FactoredRows | Self::MixedFactored => {
                Kernel::TrellisFactoredGateup
            }
            Self::Mma | Self::MmaWide(_) => Kernel::TrellisGateupMma,
        }
    }

    /// How the two products are joined.
    pub fn tail(self) -> Tail {
        match self {
            Self::Mixed(options) => options.tail,
            Self::MixedFactored => Tail::Stock,
            _ => Tail::Float,
        }
    }

    /// The arithmetic of the products, of those that take any.
    pub(super) fn selection(self) -> Selection {
        match self {
            Self::Base(selection) | Self::Shared(selection) => selection,
            Self::Mixed(options) => options.selection,
            _ => Selection::UNREFINED,
        }
    }

    /// What its weights are.
    pub(super) fn contract(self) -> Contract {
        match self.kernel() {
            Kernel::TrellisFactoredGateup | Kernel::TrellisGateupMma => Contract::Factored,
            _ => lane_contract(self.selection()),
        }
    }

    /// The result `[M, outputs]` for x `[M, inputs]`.
    pub(super) fn apply(
        self,
        x: &Array,
        gate: &TrellisWeight,
        up: &TrellisWeight,
    ) -> Result<Array, Failure> {
        Ok(match self {
            Self::Base(selection) => kernels::gateup(x, gate, up, selection)?,
            Self::Shared(selection) => kernels::gateup_shared(x, gate, up, selection)?,
            Self::Table => kernels::gateup_table(x, gate, up)?,
            Self::Mixed(options) => kernels::gateup_mixed(x, gate, up, options)?,
            Self::FactoredRow => kernels::gateup_factored_row(x, gate, up)?,
            Self::FactoredRows => kernels::gateup_factored_rows(x, gate, up)?,
            Self::MixedFactored => kernels::gateup_mixed_factored(x, gate, up)?,
            Self::Mma => kernels::gateup_mma(x, gate, up)?,
            Self::MmaWide(blocks) => kernels::gateup_mma_wide(x, gate, up, blocks)?,
        })
    }
}
