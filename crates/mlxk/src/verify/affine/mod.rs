//! Products with affine-quantized weights.

mod contracts;
mod exact;
mod problem;

use std::fmt;

use mlx_kernels::Context;
use mlx_kernels::affine::Plan;
use mlx_rs::Dtype;

pub use problem::Shape;

use super::floats::name;
use super::{Failure, Findings, Kernel, within_bounds};
use problem::Problem;

/// One check of one kernel at one shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// The kernel, and how it divides the work.
    pub plan: Plan,
    /// Extents, format and element types.
    pub shape: Shape,
    /// What is checked.
    pub check: Check,
}

/// What is checked of a product.
///
/// Kernels that are within their bounds agree within the sum of them, and kernels that give exact
/// results agree bit for bit; so no case compares two kernels with each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Check {
    /// Every element lies within its error bound, at each of these numbers of rows.
    Bounds(&'static [i32]),
    /// The same where scale times code and bias cancel, and x has one sign.
    Cancellation,
    /// Over at least 4096 outputs, the error is that of one rounding to the result's type.
    Relative,
    /// A single 1 in x picks out a column of weights, exactly.
    OneHot,
    /// Integer products are exact.
    Integers,
    /// Weights are not rounded to 16 bits.
    NarrowSteps,
    /// Zero activations and equal codes are exact.
    Extremes,
    /// A row's bits do not depend on how many rows stand beside it.
    Company(&'static [i32]),
    /// A row's bits do not depend on its place, or on what the other rows hold.
    Neighbours,
    /// Nothing outside the operands takes part, and views give the bits of copies.
    Views,
    /// Tiles do not change bits, splits keep to the bounds.
    Tilings,
    /// Batch-invariant plans give a row the same bits at 1 to 17 rows.
    Invariance,
}

impl Case {
    /// The kernel that is checked.
    pub fn kernel(&self) -> Kernel {
        match self.plan {
            Plan::Rows => Kernel::AffineRows,
            Plan::Tensor => Kernel::AffineTensor,
            Plan::Mma => Kernel::AffineMma,
            Plan::SplitMma { .. } => Kernel::AffineSplitMma,
            _ => Kernel::AffineCpu,
        }
    }

    /// The type of its results.
    pub fn dtype(&self) -> Dtype {
        self.shape.result_dtype()
    }

    /// Runs the check; operations must run under `context`.
    pub(super) fn run(&self, context: &Context) -> Result<Findings, Failure> {
        let (plan, shape) = (self.plan, self.shape);
        match self.check {
            Check::Bounds(counts) => bounds(plan, shape, counts),
            Check::Cancellation => cancellation(plan, shape),
            Check::Relative => relative(plan, shape),
            Check::OneHot => exact::one_hot(plan, shape),
            Check::Integers => exact::integers(plan, shape),
            Check::NarrowSteps => exact::narrow_steps(plan, shape),
            Check::Extremes => exact::extremes(plan, shape),
            Check::Company(counts) => contracts::company(plan, shape, counts),
            Check::Neighbours => contracts::neighbours(plan, shape),
            Check::Views => contracts::views(plan, shape),
            Check::Tilings => match plan {
                Plan::SplitMma { splits, .. } => contracts::tilings(shape, splits),
                _ => Ok(Findings::default()),
            },
            Check::Invariance => contracts::invariance(shape, context),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape {
            rows,
            n,
            k,
            bits,
            group,
            x_dtype,
            scale_dtype,
        } = self.shape;
        let (x, s) = (name(x_dtype), name(scale_dtype));
        let (plan, check) = (self.plan, self.check);
        write!(
            f,
            "{plan} {check:?}: {bits} bits, groups of {group}, {rows} x {k} by {n}, {x} x, {s} scales"
        )
    }
}

fn bounds(plan: Plan, shape: Shape, counts: &[i32]) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    for &rows in counts {
        let problem = Problem::random(Shape { rows, ..shape });
        findings = findings.and(compare(&problem, plan)?);
    }
    Ok(findings)
}

fn compare(problem: &Problem, plan: Plan) -> Result<Findings, Failure> {
    let (expected, bounds) = problem.reference(plan);
    within_bounds(&problem.run(plan)?, &expected, &bounds)
}

fn cancellation(plan: Plan, shape: Shape) -> Result<Findings, Failure> {
    let mut problem = Problem::random(shape);
    for (scale, bias) in problem.scales.iter().zip(&mut problem.biases) {
        let middle = -scale * shape.top() as f32 / 2.0;
        *bias = super::floats::round(middle, shape.scale_dtype);
    }
    for x in &mut problem.x {
        *x = x.abs();
    }
    compare(&problem, plan)
}

fn relative(plan: Plan, shape: Shape) -> Result<Findings, Failure> {
    let findings = compare(&Problem::gaussian(shape), plan)?;
    let (found, allowed) = (
        findings.relative_error,
        allowed_relative_error(shape.result_dtype()),
    );
    if found > allowed {
        return Err(Failure::Relative { found, allowed });
    }
    Ok(findings)
}

/// What one rounding to the type, and a float32 sum of at most 16384 products, explain of the
/// relative error over many outputs; weights rounded to a 16-bit type exceed it.
fn allowed_relative_error(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float16 => 2.4e-4,
        Dtype::Bfloat16 => 1.9e-3,
        _ => 5e-6,
    }
}
