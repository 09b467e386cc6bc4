//! Products with weights in trellis codes.

mod cpu;
mod expand;
pub mod kernels;
mod plan;
mod selection;
mod weight;

use mlx_rs::{Array, Dtype, ops};

pub use plan::{Plan, plan};
pub use selection::Selection;
pub use weight::TrellisWeight;

use crate::host::is_supported;
use crate::{Context, Error};

const OP: &str = "trellis_matmul";

/// `x * W^T` for a trellis-coded `W`, by the plan of the current [`Context`].
///
/// * `x`: `[..., I]`, float32, float16 or bfloat16; any rank of at least 1, any strides.
/// * `weight`: of `O` output and `I` input features.
/// * Result: `[..., O]`, lazy, of x's element type.
///
/// [`plan`] says how it is computed, and to what accuracy.
///
/// # Errors
///
/// Names the argument that does not fit, what it is and what it must be.
pub fn matmul(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    check(x, weight)?;
    let rows = x.shape()[..x.ndim() - 1].iter().product::<i32>();
    if rows == 0 || weight.outputs() == 0 {
        return Ok(ops::zeros_dtype(
            &result_shape(x, weight.outputs()),
            x.dtype(),
        )?);
    }
    match plan(&Context::current(), weight) {
        Plan::Cpu => cpu::matmul(x, rows, weight),
        Plan::Expand => expanded(x, weight),
        Plan::ExpandByRow => expanded_by_row(x, rows, weight),
    }
}

fn check(x: &Array, weight: &TrellisWeight) -> Result<(), Error> {
    if !is_supported(x.dtype()) {
        return Err(Error::Dtype {
            op: OP,
            argument: "x",
            found: x.dtype(),
            expected: "float32, float16 or bfloat16".into(),
        });
    }
    let inputs = weight.inputs();
    if x.ndim() == 0 || x.dim(-1) != inputs {
        return Err(Error::Shape {
            op: OP,
            argument: "x",
            found: x.shape().to_vec(),
            expected: format!("a last dimension of {inputs}, the weight's input features"),
        });
    }
    Ok(())
}

/// In float32: narrow weights, and the narrow sums of some of MLX's products, would cost more
/// accuracy than the codes themselves at 8 bits.
fn expanded(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    let product = x
        .as_dtype(Dtype::Float32)?
        .matmul(weight.expand(Dtype::Float32)?.t())?;
    Ok(product.as_dtype(x.dtype())?)
}

/// One stock product a row, all with the same expansion.
fn expanded_by_row(x: &Array, rows: i32, weight: &TrellisWeight) -> Result<Array, Error> {
    let matrix = weight.expand(Dtype::Float32)?;
    let products = x
        .as_dtype(Dtype::Float32)?
        .reshape(&[rows, weight.inputs()])?
        .split_equal(rows, 0)?
        .iter()
        .map(|row| row.matmul(matrix.t()))
        .collect::<Result<Vec<_>, _>>()?;
    let stacked = ops::concatenate(&products, 0)?;
    let stacked = stacked.reshape(&result_shape(x, weight.outputs()))?;
    Ok(stacked.as_dtype(x.dtype())?)
}

/// x's leading dimensions and the output features.
fn result_shape(x: &Array, outputs: i32) -> Vec<i32> {
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = outputs;
    }
    shape
}
