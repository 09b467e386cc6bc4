//! Products with weights in MLX's affine quantization.

mod cpu;
mod kernel;
mod plan;
mod problem;
mod tables;

use mlx_rs::{Array, ops};

pub use plan::{BLOCK_ROWS, Plan, plan};
pub use problem::{BITS, GROUP_SIZES, Problem};
pub use tables::{Table, for_device as table_for};

use crate::{Context, Error};
use problem::Operands;

/// A product and the plan that computed it.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The lazy result.
    pub result: Array,
    /// How it is computed.
    pub plan: Plan,
}

/// `x * W^T` for an affine-quantized `W`, by the plan of the current [`Context`].
///
/// * `x`: `[..., K]`, float32, float16 or bfloat16; any rank of at least 1, any strides.
/// * `w`: uint32 `[N, K * bits / 32]`; `scales`, `biases`: float `[N, K / group_size]`.
/// * Result: `[..., N]`, of the element type that x, scales and biases promote to.
///
/// What lies outside that (no biases, a batch of weights, float64, `transpose` false) goes to
/// `mlx_rs::ops::quantized_matmul` as it is.
///
/// # Errors
///
/// Names the argument that does not fit, what it is and what it must be.
pub fn quantized_matmul(
    x: &Array,
    w: &Array,
    scales: &Array,
    biases: Option<&Array>,
    transpose: bool,
    group_size: i32,
    bits: i32,
) -> Result<Planned, Error> {
    let stock = || -> Result<Planned, Error> {
        let result = ops::quantized_matmul(x, w, scales, biases, transpose, group_size, bits)?;
        Ok(Planned {
            result,
            plan: Plan::Stock,
        })
    };
    if !transpose {
        return stock();
    }
    let Some((problem, operands)) = Problem::read(x, w, scales, biases, group_size, bits)? else {
        return stock();
    };
    if problem.rows == 0 {
        let result = ops::zeros_dtype(&result_shape(x, problem.n), problem.dtype)?;
        return Ok(Planned {
            result,
            plan: Plan::Stock,
        });
    }
    let context = Context::current();
    let plan = plan(&problem, context.profile(), context.options());
    let result = run(plan, &context, &problem, &operands)?;
    Ok(Planned { result, plan })
}

/// The arrays of one affine-quantized matrix `W`, as [`quantized_matmul`] takes them.
#[derive(Debug, Clone, Copy)]
pub struct Weight<'a> {
    /// Packed codes.
    pub w: &'a Array,
    /// Scales.
    pub scales: &'a Array,
    /// Biases.
    pub biases: &'a Array,
    /// Weights that share a scale and a bias.
    pub group_size: i32,
    /// Bits of a code.
    pub bits: i32,
}

/// The products of one `x` with several weights: what [`quantized_matmul`] gives for each. On the CPU
/// they are one node of the graph, which for few rows and small weights costs as much as a product.
///
/// # Errors
///
/// As [`quantized_matmul`].
pub fn quantized_matmuls(x: &Array, weights: &[Weight<'_>]) -> Result<Vec<Planned>, Error> {
    let context = Context::current();
    let mut products = Vec::new();
    for weight in weights {
        let Weight {
            w, scales, biases, ..
        } = weight;
        let read = Problem::read(x, w, scales, Some(biases), weight.group_size, weight.bits)?;
        products.extend(read.filter(|(problem, _)| {
            problem.rows > 0 && plan(problem, context.profile(), context.options()) == Plan::Cpu
        }));
    }
    if !products.is_empty() && products.len() == weights.len() {
        let planned = |result| Planned {
            result,
            plan: Plan::Cpu,
        };
        return Ok(cpu::matmuls(&products)?.into_iter().map(planned).collect());
    }
    let each = |weight: &Weight<'_>| {
        let (group_size, bits) = (weight.group_size, weight.bits);
        let Weight {
            w, scales, biases, ..
        } = weight;
        quantized_matmul(x, w, scales, Some(biases), true, group_size, bits)
    };
    weights.iter().map(each).collect()
}

/// As [`quantized_matmul`] with `transpose` true, by this plan and no other: for checks, measurements
/// and tuning.
///
/// # Errors
///
/// As [`quantized_matmul`]; and where the plan's kernel cannot take this product, or the product is not
/// of the kind that plans are made for.
pub fn quantized_matmul_by(
    plan: Plan,
    x: &Array,
    w: &Array,
    scales: &Array,
    biases: &Array,
    group_size: i32,
    bits: i32,
) -> Result<Array, Error> {
    let refuse = |expected: &str| Error::Value {
        op: problem::OP,
        argument: "plan",
        found: plan.to_string(),
        expected: expected.to_owned(),
    };
    let read = Problem::read(x, w, scales, Some(biases), group_size, bits)?;
    let (problem, operands) =
        read.ok_or_else(|| refuse("a product with one two-dimensional weight"))?;
    if problem.rows == 0 || !plan.is_eligible(&problem) {
        return Err(refuse(&format!("a kernel that takes {problem:?}")));
    }
    run(plan, &Context::current(), &problem, &operands)
}

fn run(
    plan: Plan,
    context: &Context,
    problem: &Problem,
    operands: &Operands,
) -> Result<Array, Error> {
    match plan {
        Plan::Cpu => {
            let product = (*problem, operands.clone());
            Ok(cpu::matmuls(&[product])?.remove(0))
        }
        Plan::Stock => stock(problem, operands, &operands.x),
        Plan::StockByRow => stock_by_row(problem, operands),
        Plan::Rows | Plan::Tensor | Plan::Mma | Plan::SplitMma { .. } => {
            kernel::matmul(plan, &context.kernel_device()?, problem, operands)
        }
    }
}

/// MLX's operation. Its CUDA back end refuses a vector, so that one goes in as a row.
fn stock(problem: &Problem, operands: &Operands, x: &Array) -> Result<Array, Error> {
    let Operands {
        w, scales, biases, ..
    } = operands;
    let (group_size, bits) = (problem.group_size, problem.bits);
    if x.ndim() == 1 {
        let row = stock(problem, operands, &x.reshape(&[1, problem.k])?)?;
        return Ok(row.reshape(&[problem.n])?);
    }
    let result = ops::quantized_matmul(x, w, scales, Some(biases), true, group_size, bits)?;
    Ok(result)
}

fn stock_by_row(problem: &Problem, operands: &Operands) -> Result<Array, Error> {
    let rows = operands
        .x
        .reshape(&[problem.rows, problem.k])?
        .split_equal(problem.rows, 0)?;
    let products = rows
        .iter()
        .map(|row| stock(problem, operands, row))
        .collect::<Result<Vec<_>, _>>()?;
    let stacked = ops::concatenate(&products, 0)?;
    Ok(stacked.reshape(&result_shape(&operands.x, problem.n))?)
}

/// x's leading dimensions and N.
fn result_shape(x: &Array, n: i32) -> Vec<i32> {
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = n;
    }
    shape
}
