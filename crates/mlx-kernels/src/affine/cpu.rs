//! The product on the CPU: a host operation over the SIMD code.

use mlx_kernels_cpu::affine::{self, Problem as CpuProblem};
use mlx_op::{HostError, HostOp, OutputSpec};
use mlx_rs::Array;

use super::problem::{OP, Operands, Problem};
use crate::Error;
use crate::host::{floats, floats_mut};

/// Adds the node; the result has x's leading dimensions and `problem.dtype`.
pub(super) fn matmul(problem: &Problem, operands: &Operands) -> Result<Array, Error> {
    let Operands {
        x,
        w,
        scales,
        biases,
    } = operands;
    let [rows, n, k, bits, group_size] = [
        problem.rows,
        problem.n,
        problem.k,
        problem.bits,
        problem.group_size,
    ]
    .map(|size| size as usize);
    let product = CpuProblem::new(rows, n, k, bits, group_size).map_err(|error| Error::Value {
        op: OP,
        argument: "problem",
        found: format!("{problem:?}"),
        expected: error.to_string(),
    })?;
    let output = OutputSpec::new(super::result_shape(x, problem.n), problem.dtype);
    let mut results = HostOp::new(OP).apply(
        &[x, w, scales, biases],
        &[output],
        move |inputs, outputs| {
            let [x, w, scales, biases] = inputs else {
                return Err(HostError::failed("expected four inputs"));
            };
            affine::matmul(
                &product,
                floats(x)?,
                w.as_slice()?,
                floats(scales)?,
                floats(biases)?,
                floats_mut(&mut outputs[0])?,
            )
            .map_err(HostError::failed)
        },
    )?;
    Ok(results.remove(0))
}
