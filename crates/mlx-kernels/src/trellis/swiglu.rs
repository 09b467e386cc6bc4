//! `silu(gate(x)) * up(x)` over two trellis weights.

use std::fmt;

use mlx_rs::{Array, Dtype, ops};
use trellis_codec::{Axis, Layout};

use super::kernels::{self, MixedOptions};
use super::plan::{Choices, LANE_ROWS, MATRIX_ROWS, lanes_are_eligible};
use super::tables::Choice;
use super::{MlpPolicy, OP, Selection, TrellisWeight, check, result_shape, rows};
use crate::{Backend, Context, Error};

/// How `silu(gate(x)) * up(x)` is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GatePlan {
    /// Two products by their own plans, and MLX operations.
    Separate,
    /// One kernel for two weights of one width.
    Fused,
    /// The same with each weight decoded once for 2 to 4 rows.
    FusedShared,
    /// The same for one row with values from a table.
    FusedTable,
    /// One kernel for two weights of different widths.
    Mixed {
        /// Codes are lifted into floats instead of converted.
        lifted: bool,
    },
    /// The kernels for up to 4 rows, as often as the rows call for.
    InFours,
    /// Integer codes on ordinary lanes.
    Factored,
    /// Integer codes on the matrix unit.
    Matrix,
}

impl fmt::Display for GatePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Separate => "separate products",
            Self::Fused => "trellis gate/up",
            Self::FusedShared => "trellis gate/up shared",
            Self::FusedTable => "trellis gate/up by table",
            Self::Mixed { .. } => "trellis gate/up mixed",
            Self::InFours => "trellis gate/up by 4 rows",
            Self::Factored => "trellis gate/up factored",
            Self::Matrix => "trellis gate/up matrix unit",
        })
    }
}

/// The plan for `silu(gate(x)) * up(x)` with `rows` rows of type `dtype`. Pure: no device is touched.
pub fn gate_plan(
    context: &Context,
    gate: &TrellisWeight,
    up: &TrellisWeight,
    rows: i32,
    dtype: Dtype,
) -> GatePlan {
    let (geometry, other) = (gate.geometry(), up.geometry());
    let (format, other_format) = (geometry.format(), other.format());
    let fusible = context.backend() != Backend::Cpu
        && [geometry, other]
            .iter()
            .all(|geometry| geometry.axis() == Axis::Input && geometry.layout() == Layout::Rows)
        && lanes_are_eligible(geometry)
        && (geometry.rows(), geometry.cols()) == (other.rows(), other.cols())
        && (format.block(), format.state_bits())
            == (other_format.block(), other_format.state_bits());
    if !fusible || rows == 0 {
        return GatePlan::Separate;
    }
    let options = context.options();
    let verify = options.mlp_policy == MlpPolicy::VerifyWidth && !options.batch_invariant;
    if verify && rows <= LANE_ROWS {
        return GatePlan::Factored;
    }
    if verify && rows <= MATRIX_ROWS && kernels::gateup_mma_is_eligible(geometry) {
        return GatePlan::Matrix;
    }
    if rows > LANE_ROWS {
        return if options.batch_invariant {
            GatePlan::InFours
        } else {
            GatePlan::Separate
        };
    }
    let choices = Choices::new(context.profile(), geometry);
    let permits = |choice| choices.permit(choice, rows, dtype);
    if format.bits() != other_format.bits() {
        let other_choices = Choices::new(context.profile(), other);
        let lifted = permits(Choice::GateUpLifted)
            && other_choices.permit(Choice::GateUpLifted, rows, dtype);
        GatePlan::Mixed { lifted }
    } else if rows > 1 {
        GatePlan::FusedShared
    } else if permits(Choice::GateUpTable) {
        GatePlan::FusedTable
    } else {
        GatePlan::Fused
    }
}

/// `silu(gate(x)) * up(x)` under the current context, by [`gate_plan`].
///
/// * `x`: `[..., I]`, float32, float16 or bfloat16.
/// * Result: `[..., O]`, lazy, of x's element type.
///
/// # Errors
///
/// When the two weights have different features, or x is not one that they take.
pub fn swiglu(x: &Array, gate: &TrellisWeight, up: &TrellisWeight) -> Result<Array, Error> {
    let context = Context::current();
    check(OP, x, gate)?;
    if [gate.outputs(), gate.inputs()] != [up.outputs(), up.inputs()] {
        return Err(Error::Shape {
            op: OP,
            argument: "up",
            found: vec![up.outputs(), up.inputs()],
            expected: format!("{} x {}, as gate", gate.outputs(), gate.inputs()),
        });
    }
    let plan = gate_plan(&context, gate, up, rows(x), x.dtype());
    swiglu_by(plan, x, gate, up)
}

fn swiglu_by(
    plan: GatePlan,
    x: &Array,
    gate: &TrellisWeight,
    up: &TrellisWeight,
) -> Result<Array, Error> {
    let selection = Selection::default();
    let equal = gate.geometry().format().bits() == up.geometry().format().bits();
    match plan {
        GatePlan::Separate => crate::gate::stock(&super::matmul(x, gate)?, &super::matmul(x, up)?),
        GatePlan::Fused => kernels::gateup(x, gate, up, selection),
        GatePlan::FusedShared => kernels::gateup_shared(x, gate, up, selection),
        GatePlan::FusedTable => kernels::gateup_table(x, gate, up),
        GatePlan::Mixed { lifted } => kernels::gateup_mixed(
            x,
            gate,
            up,
            MixedOptions {
                lifted,
                ..MixedOptions::default()
            },
        ),
        GatePlan::InFours => in_fours(x, gate, up),
        GatePlan::Factored if !equal => kernels::gateup_mixed_factored(x, gate, up),
        GatePlan::Factored if rows(x) == 1 => kernels::gateup_factored_row(x, gate, up),
        GatePlan::Factored => kernels::gateup_factored_rows(x, gate, up),
        GatePlan::Matrix => kernels::gateup_mma(x, gate, up),
    }
}

/// Every 4 rows of x by the kernels for so many, which give a row the bits that it has alone.
fn in_fours(x: &Array, gate: &TrellisWeight, up: &TrellisWeight) -> Result<Array, Error> {
    let parts = super::run::fours(x, gate.inputs())?
        .iter()
        .map(|few| swiglu(few, gate, up))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(ops::concatenate(&parts, 0)?.reshape(&result_shape(x, gate.outputs()))?)
}
