//! The product on the CPU: a host operation over the SIMD code.

use mlx_kernels_cpu::trellis;
use mlx_op::{HostError, HostOp, OutputSpec};
use mlx_rs::Array;

use super::{OP, TrellisWeight, result_shape};
use crate::Error;
use crate::host::{floats, floats_mut};

/// Adds the node; the result has x's leading dimensions and element type.
pub(super) fn matmul(x: &Array, rows: i32, weight: &TrellisWeight) -> Result<Array, Error> {
    let geometry = *weight.geometry();
    let output = OutputSpec::new(result_shape(x, weight.outputs()), x.dtype());
    let mut results = HostOp::new(OP).apply(
        &[x, weight.codes(), weight.scales()],
        &[output],
        move |inputs, outputs| {
            let [x, codes, scales] = inputs else {
                return Err(HostError::failed("expected three inputs"));
            };
            trellis::matmul(
                &geometry,
                rows as usize,
                floats(x)?,
                codes.as_slice()?,
                floats(scales)?,
                floats_mut(&mut outputs[0])?,
            )
            .map_err(HostError::failed)
        },
    )?;
    Ok(results.remove(0))
}
