//! Products with weights in trellis codes.

mod cpu;
mod expand;
pub mod kernels;
mod linear;
mod mlp;
mod plan;
mod policy;
mod run;
mod selection;
mod swiglu;
mod tables;
mod weight;

use mlx_rs::Array;

pub use linear::TrellisLinear;
pub use mlp::{TrellisMlp, down, down_plan};
pub use plan::{Plan, Product, plan};
pub use policy::MlpPolicy;
pub use selection::Selection;
pub use swiglu::{GatePlan, gate_plan, swiglu};
pub use tables::profile_lines;
pub use weight::TrellisWeight;

use crate::host::is_supported;
use crate::{Context, Error};

const OP: &str = "trellis_matmul";

/// `x * W^T` for a trellis-coded `W`, by the plan of the current [`Context`].
///
/// * `x`: `[..., I]`, float32, float16 or bfloat16; any rank of at least 1, any strides.
/// * `weight`: of `O` output and `I` input features.
/// * Result: `[..., O]`, of x's element type; lazy, but for [`Plan::Expand`] on a GPU.
///
/// [`plan`] says how it is computed, and to what accuracy. [`TrellisLinear`] settles what depends on
/// the device when a layer is built.
///
/// # Errors
///
/// Names the argument that does not fit, what it is and what it must be.
pub fn matmul(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    check(OP, x, weight)?;
    let context = Context::current();
    let selection = Selection::default();
    let product = product(x, weight);
    let plan = plan(&product, context.profile(), context.options(), selection);
    run::by_plan(plan, x, weight, selection)
}

/// What a plan for x is made for.
fn product(x: &Array, weight: &TrellisWeight) -> Product {
    Product {
        geometry: *weight.geometry(),
        rows: rows(x),
        dtype: x.dtype(),
    }
}

/// The product of the leading dimensions.
fn rows(x: &Array) -> i32 {
    x.shape()[..x.ndim() - 1].iter().product()
}

fn check(op: &'static str, x: &Array, weight: &TrellisWeight) -> Result<(), Error> {
    if !is_supported(x.dtype()) {
        return Err(Error::Dtype {
            op,
            argument: "x",
            found: x.dtype(),
            expected: "float32, float16 or bfloat16".into(),
        });
    }
    let inputs = weight.inputs();
    if x.ndim() == 0 || x.dim(-1) != inputs {
        return Err(Error::Shape {
            op,
            argument: "x",
            found: x.shape().to_vec(),
            expected: format!("a last dimension of {inputs}, the weight's input features"),
        });
    }
    Ok(())
}

/// x's leading dimensions and the output features.
fn result_shape(x: &Array, outputs: i32) -> Vec<i32> {
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = outputs;
    }
    shape
}
