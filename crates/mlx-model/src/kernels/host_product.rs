//! A product of float32 matrices by a function of this crate, as a lazy node on the CPU.

use mlx_op::{HostError, HostOp, OutputSpec};
use mlx_rs::{Array, Dtype};

use crate::error::Result;

/// Writes `y = x matrix^T` from the elements of x and of the matrix, whose columns are given.
type Multiply = fn(x: &[f32], matrix: &[f32], columns: usize, y: &mut [f32]);

/// Adds the node `name`: float32 `[.., columns]` and `[rows, columns]` to `[.., rows]`.
pub(super) fn host_product(
    name: &str,
    x: &Array,
    matrix: &Array,
    multiply: Multiply,
) -> Result<Array> {
    let (outputs, columns) = (matrix.dim(0), matrix.dim(1) as usize);
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = outputs;
    }
    let spec = OutputSpec::new(shape, Dtype::Float32);
    let mut results = HostOp::new(name)
        .apply(&[x, matrix], &[spec], move |inputs, outputs| {
            let [x, matrix] = inputs else {
                return Err(HostError::failed("expected two inputs"));
            };
            multiply(
                x.as_slice()?,
                matrix.as_slice()?,
                columns,
                outputs[0].as_mut_slice()?,
            );
            Ok(())
        })
        .map_err(mlx_kernels::Error::from)?;
    Ok(results.remove(0))
}
