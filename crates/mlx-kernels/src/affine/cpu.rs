//! The product on the CPU: a host operation over the SIMD code.

use mlx_kernels_cpu::affine::{self, Problem as CpuProblem, Product};
use mlx_op::{HostError, HostOp, OutputSpec};
use mlx_rs::Array;

use super::problem::{OP, Operands, Problem};
use crate::Error;
use crate::host::{floats, floats_mut};

/// Adds one node for all the products; each result has its x's leading dimensions and its
/// `problem.dtype`.
pub(super) fn matmuls(products: &[(Problem, Operands)]) -> Result<Vec<Array>, Error> {
    let problems = products
        .iter()
        .map(|(problem, _)| extents(problem))
        .collect::<Result<Vec<_>, _>>()?;
    let inputs: Vec<&Array> = products
        .iter()
        .flat_map(|(_, operands)| {
            let Operands {
                x,
                w,
                scales,
                biases,
            } = operands;
            [x, w, scales, biases]
        })
        .collect();
    let outputs: Vec<OutputSpec> = products
        .iter()
        .map(|(problem, operands)| {
            OutputSpec::new(super::result_shape(&operands.x, problem.n), problem.dtype)
        })
        .collect();
    let results = HostOp::new(OP).apply(&inputs, &outputs, move |inputs, outputs| {
        let operands = inputs.as_chunks::<4>().0;
        let mut products = problems
            .iter()
            .zip(operands)
            .zip(outputs)
            .map(|((problem, [x, w, scales, biases]), y)| {
                Ok(Product {
                    problem: *problem,
                    x: floats(x)?,
                    w: w.as_slice()?,
                    scales: floats(scales)?,
                    biases: floats(biases)?,
                    y: floats_mut(y)?,
                })
            })
            .collect::<Result<Vec<_>, HostError>>()?;
        affine::matmuls(&mut products).map_err(HostError::failed)
    })?;
    Ok(results)
}

fn extents(problem: &Problem) -> Result<CpuProblem, Error> {
    let [rows, n, k, bits, group_size] = [
        problem.rows,
        problem.n,
        problem.k,
        problem.bits,
        problem.group_size,
    ]
    .map(|size| size as usize);
    CpuProblem::new(rows, n, k, bits, group_size).map_err(|error| Error::Value {
        op: OP,
        argument: "problem",
        found: format!("{problem:?}"),
        expected: error.to_string(),
    })
}
