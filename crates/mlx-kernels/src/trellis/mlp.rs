//! The gated MLP over trellis weights: `down(silu(gate(x)) * up(x))`.

use std::sync::Arc;

use mlx_rs::{Array, Dtype};
use trellis_codec::Axis;

use super::plan::{LANE_ROWS, MATRIX_ROWS};
use super::{
    MlpPolicy, OP, Plan, Product, Selection, TrellisWeight, check, kernels, plan, rows, swiglu,
};
use crate::{Backend, Context, Error, with_context};

/// The plan for a down projection of `rows` rows of type `dtype`. Pure: no device is touched.
///
/// As [`plan`], but for weights coded along their outputs under [`MlpPolicy::VerifyWidth`]: integer
/// codes for 1 to 8 rows, from 4 on by the matrix unit (the plan measured best on an M4 Pro).
pub fn down_plan(context: &Context, weight: &TrellisWeight, rows: i32, dtype: Dtype) -> Plan {
    let (options, geometry) = (context.options(), *weight.geometry());
    let verify = options.mlp_policy == MlpPolicy::VerifyWidth
        && !options.batch_invariant
        && context.backend() != Backend::Cpu
        && geometry.axis() == Axis::Output;
    if verify && rows < LANE_ROWS && kernels::down_factored_is_eligible(&geometry) {
        return Plan::DownFactored;
    }
    if verify
        && (LANE_ROWS..=MATRIX_ROWS).contains(&rows)
        && kernels::down_mma_is_eligible(&geometry)
    {
        return Plan::DownMatrix;
    }
    let product = Product {
        geometry,
        rows,
        dtype,
    };
    plan(&product, context.profile(), options, Selection::default())
}

/// A down projection under the current context, by [`down_plan`]: `[..., I]` to `[..., O]`, lazy.
///
/// # Errors
///
/// Those of [`matmul`](super::matmul).
pub fn down(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    check(OP, x, weight)?;
    let plan = down_plan(&Context::current(), weight, rows(x), x.dtype());
    super::run::by_plan(plan, x, weight, Selection::default())
}

/// The three weights of an MLP under a context that is settled when it is built.
#[derive(Debug, Clone)]
pub struct TrellisMlp {
    gate: TrellisWeight,
    up: TrellisWeight,
    down: TrellisWeight,
    context: Arc<Context>,
}

impl TrellisMlp {
    /// The MLP for the current context.
    ///
    /// # Errors
    ///
    /// When the weights' features do not fit each other.
    pub fn new(gate: TrellisWeight, up: TrellisWeight, down: TrellisWeight) -> Result<Self, Error> {
        let (inputs, inner) = (gate.inputs(), gate.outputs());
        if [up.outputs(), up.inputs(), down.inputs()] != [inner, inputs, inner] {
            return Err(Error::Shape {
                op: OP,
                argument: "up's outputs, up's inputs, down's inputs",
                found: vec![up.outputs(), up.inputs(), down.inputs()],
                expected: format!("{inner}, {inputs}, {inner}: gate is {inner} x {inputs}"),
            });
        }
        let context = Context::current();
        Ok(Self {
            gate,
            up,
            down,
            context,
        })
    }

    /// `[..., I]` to `[..., O]` of the down projection, lazy.
    ///
    /// # Errors
    ///
    /// When x is not one that the weights take.
    pub fn forward(&self, x: &Array) -> Result<Array, Error> {
        with_context(&self.context, || {
            down(&swiglu(x, &self.gate, &self.up)?, &self.down)
        })
    }
}
