//! How a product with a trellis weight is computed.

use std::fmt;

use mlx_op::{Backend, DeviceProfile};
use mlx_rs::Dtype;
use trellis_codec::{Axis, Geometry};

use super::Selection;
use super::kernels::{
    balanced_is_eligible, prefill_splitk_is_eligible, prefill_tiled_is_eligible,
    prefill_wide_is_eligible, scatter_is_eligible,
};
use super::tables::{Choice, LINES, Line};
use crate::PlanOptions;

/// Weights that the CPU code decodes at a time; blocks must be whole groups of them.
const CPU_GROUP: usize = 16;
/// The most rows of the kernels on ordinary lanes.
pub(super) const LANE_ROWS: i32 = 4;
/// The most rows of one pass of the kernels on the matrix unit.
pub(super) const MATRIX_ROWS: i32 = 8;

/// A way to compute a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Plan {
    /// The SIMD code: weights take part as exact integer codes, sums are float32, and a row's result
    /// does not depend on the rows beside it.
    Cpu,
    /// The weight is decoded, each time, and multiplied by the stock product: in the activations'
    /// type on a GPU, in float32 on the CPU.
    Expand,
    /// As [`Plan::Expand`] with a stock product for each row, so that no row depends on another.
    ExpandByRow,
    /// Lanes along the inputs: 1 to 4 rows, each of which decodes the weight.
    Reduce,
    /// The same with each weight decoded once for 2 to 4 rows.
    ReduceShared,
    /// Lanes along the outputs: 1 to 4 rows, each of which decodes the weight.
    Scatter {
        /// Codes are lifted into floats instead of converted.
        lifted: bool,
        /// Values come from a table.
        table: bool,
    },
    /// The same with each weight decoded once for 2 to 4 rows.
    ScatterShared,
    /// Lanes along the outputs with equal shares of 3-bit codes.
    Balanced {
        /// Codes are lifted into floats instead of converted.
        lifted: bool,
        /// Values come from a table.
        table: bool,
    },
    /// The same with each weight decoded once for 2 to 4 rows.
    BalancedShared {
        /// Codes come from a table of 16-bit integers.
        table: bool,
    },
    /// The kernels for up to 4 rows, as often as the rows call for: a row's bits do not depend on how
    /// many there are.
    InFours,
    /// Tiles of weights decoded into threadgroup memory.
    PrefillTiled,
    /// The same with the inner dimension split.
    PrefillSplit,
    /// Rows of weights decoded for many vectors.
    PrefillWide,
    /// Lanes along the outputs with integer codes: 1 to 4 rows.
    DownFactored,
    /// The matrix unit with integer codes along the outputs: 1 to 8 rows.
    DownMatrix,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cpu => "cpu simd trellis",
            Self::Expand => "expand + mlx matmul",
            Self::ExpandByRow => "expand + mlx matmul by row",
            Self::Reduce => "trellis reduce",
            Self::ReduceShared => "trellis reduce shared",
            Self::Scatter { .. } => "trellis scatter",
            Self::ScatterShared => "trellis scatter shared",
            Self::Balanced { .. } => "trellis balanced scatter",
            Self::BalancedShared { .. } => "trellis balanced scatter shared",
            Self::InFours => "trellis kernels by 4 rows",
            Self::PrefillTiled => "trellis prefill tiled",
            Self::PrefillSplit => "trellis prefill split",
            Self::PrefillWide => "trellis prefill wide",
            Self::DownFactored => "trellis down factored",
            Self::DownMatrix => "trellis down matrix unit",
        })
    }
}

/// What a plan is made for: a weight, the rows of x and their element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// The weight's.
    pub geometry: Geometry,
    /// Rows of x.
    pub rows: i32,
    /// Element type of x.
    pub dtype: Dtype,
}

/// The lines of the profile table that fit a device and a weight. Made once for a layer.
#[derive(Debug, Clone)]
pub(super) struct Choices(Vec<&'static Line>);

impl Choices {
    pub(super) fn new(profile: &DeviceProfile, geometry: &Geometry) -> Self {
        let fitting = |line: &&Line| line.fits(profile, geometry);
        Self(LINES.iter().filter(fitting).collect())
    }

    pub(super) fn permit(&self, choice: Choice, rows: i32, dtype: Dtype) -> bool {
        self.0
            .iter()
            .any(|line| line.choice == choice && line.covers(rows, dtype))
    }
}

/// The plan for a product on a device. Pure: no device is touched.
///
/// The CPU back end takes the SIMD code, except for blocks that are no multiple of 16 weights, which
/// it expands. A GPU takes the kernels on ordinary lanes for up to 4 rows; from 5 on those prefill
/// kernels that the profile table names for the device and the shape, else it expands.
pub fn plan(
    product: &Product,
    profile: &DeviceProfile,
    options: PlanOptions,
    selection: Selection,
) -> Plan {
    let choices = Choices::new(profile, &product.geometry);
    by_choices(product, profile.backend, options, selection, &choices)
}

/// The same with the choices of the device and the weight already made.
pub(super) fn by_choices(
    product: &Product,
    backend: Backend,
    options: PlanOptions,
    selection: Selection,
    choices: &Choices,
) -> Plan {
    let rows = product.rows;
    if backend == Backend::Cpu {
        let whole_groups = product.geometry.format().block().is_multiple_of(CPU_GROUP);
        return match (whole_groups, options.batch_invariant) {
            (true, _) => Plan::Cpu,
            (false, false) => Plan::Expand,
            (false, true) => Plan::ExpandByRow,
        };
    }
    if !lanes_are_eligible(&product.geometry) {
        return if options.batch_invariant {
            Plan::ExpandByRow
        } else {
            Plan::Expand
        };
    }
    match (rows <= LANE_ROWS, options.batch_invariant) {
        (true, _) => lanes(product, selection, choices),
        (false, true) => Plan::InFours,
        (false, false) => prefill(product, selection, choices).unwrap_or(Plan::Expand),
    }
}

/// Whether the kernels on ordinary lanes can decode such codes: along the inputs in runs of 32 weights,
/// along the outputs in what a simdgroup holds.
pub(super) fn lanes_are_eligible(geometry: &Geometry) -> bool {
    match geometry.axis() {
        Axis::Input => geometry.format().block().is_multiple_of(32),
        Axis::Output => scatter_is_eligible(geometry),
    }
}

fn lanes(product: &Product, selection: Selection, choices: &Choices) -> Plan {
    let Product {
        geometry,
        rows,
        dtype,
    } = *product;
    let permits =
        |choice| selection == Selection::ALL_KERNELS && choices.permit(choice, rows, dtype);
    if geometry.axis() == Axis::Input {
        return if rows > 1 && selection.shares_rows_of_reduce() {
            Plan::ReduceShared
        } else {
            Plan::Reduce
        };
    }
    let balanced = selection.balances_scatter() && balanced_is_eligible(&geometry);
    let shared = rows > 1 && selection.shares_rows_of_scatter();
    let (lifted, table) = (
        permits(Choice::ScatterLifted),
        permits(Choice::ScatterTable),
    );
    match (balanced, shared) {
        (false, false) => Plan::Scatter { lifted, table },
        (false, true) => Plan::ScatterShared,
        (true, false) => Plan::Balanced { lifted, table },
        (true, true) => Plan::BalancedShared {
            table: permits(Choice::ScatterShortTable),
        },
    }
}

fn prefill(product: &Product, selection: Selection, choices: &Choices) -> Option<Plan> {
    let Product {
        ref geometry,
        rows,
        dtype,
    } = *product;
    let permits = |choice| choices.permit(choice, rows, dtype);
    let tiles = selection.tiles_prefill();
    if tiles && permits(Choice::PrefillWide) && prefill_wide_is_eligible(geometry, rows, dtype) {
        Some(Plan::PrefillWide)
    } else if tiles
        && permits(Choice::PrefillTiled)
        && prefill_tiled_is_eligible(geometry, rows, dtype)
    {
        Some(Plan::PrefillTiled)
    } else if selection.splits_prefill()
        && permits(Choice::PrefillSplit)
        && prefill_splitk_is_eligible(geometry, rows, dtype)
    {
        Some(Plan::PrefillSplit)
    } else {
        None
    }
}
