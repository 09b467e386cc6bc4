//! `y = x * W^T` for a weight in MLX's affine quantization.
//!
//! A row of the weight is one little-endian bit stream of `bits`-bit codes, least significant bit
//! first, in `u32` words; every `group_size` consecutive codes share a scale and a bias, and the
//! weight is `scale * q + bias`.
//!
//! # Numbers
//!
//! Activations, scales and biases are widened to `f32` exactly. A weight is formed in `f32` with
//! one rounding (two on the portable level). Each result is the sum of 16 partial sums, taken
//! along ascending positions with fused multiply-add, and is rounded to the output's type once.
//! That order depends on nothing but the inner width: not on the number of rows, not on a row's
//! place among them, not on threads.

mod activations;
mod fused;
mod output;
mod plan;
mod problem;
mod strip;
mod tiled;

pub use problem::Problem;

use crate::float::SharedFloats;
use crate::{Error, Execution, Floats, FloatsMut, Level, threads};
use activations::Activations;
use output::Columns;
use plan::{Path, Plan};
use strip::Weight;

/// `y = x * W^T` on this machine's best instructions and all its cores.
///
/// * `x`: `[rows, k]` activations.
/// * `w`: `[n, k * bits / 32]` packed codes.
/// * `scales`, `biases`: `[n, k / group_size]`, of one type, which need not be that of `x`.
/// * `y`: `[rows, n]`, of any of the three types; every element is written.
///
/// # Errors
///
/// [`Error::Length`] and [`Error::ElementType`] for arrays that do not fit `problem`; `y` is then
/// untouched.
///
/// # Examples
///
/// ```
/// use mlx_kernels_cpu::affine::{Problem, matmul};
///
/// // One row, two outputs, 32 4-bit weights each: all codes 1, then all codes 2.
/// let problem = Problem::new(1, 2, 32, 4, 32)?;
/// let w = [[0x1111_1111_u32; 4], [0x2222_2222; 4]].concat();
/// let (x, scales, biases) = ([1.0_f32; 32], [0.5_f32, 0.5], [0.0_f32, 1.0]);
/// let mut y = [0.0_f32; 2];
/// let (x, scales, biases) = ((&x[..]).into(), (&scales[..]).into(), (&biases[..]).into());
/// matmul(&problem, x, &w, scales, biases, (&mut y[..]).into())?;
/// assert_eq!(y, [16.0, 64.0]);
/// # Ok::<(), mlx_kernels_cpu::Error>(())
/// ```
pub fn matmul(
    problem: &Problem,
    x: Floats<'_>,
    w: &[u32],
    scales: Floats<'_>,
    biases: Floats<'_>,
    y: FloatsMut<'_>,
) -> Result<(), Error> {
    matmul_with(Execution::default(), problem, x, w, scales, biases, y)
}

/// As [`matmul`], with the instructions and the number of threads given.
///
/// # Errors
///
/// As [`matmul`], and [`Error::Level`] for instructions that this machine does not have.
pub fn matmul_with(
    execution: Execution,
    problem: &Problem,
    x: Floats<'_>,
    w: &[u32],
    scales: Floats<'_>,
    biases: Floats<'_>,
    y: FloatsMut<'_>,
) -> Result<(), Error> {
    let product = Product {
        problem: *problem,
        x,
        w,
        scales,
        biases,
        y,
    };
    matmuls_with(execution, &mut [product])
}

/// One of several products that threads share out together.
#[derive(Debug)]
pub struct Product<'a> {
    /// Extents and format.
    pub problem: Problem,
    /// `[rows, k]` activations.
    pub x: Floats<'a>,
    /// `[n, k * bits / 32]` packed codes.
    pub w: &'a [u32],
    /// `[n, k / group_size]`.
    pub scales: Floats<'a>,
    /// As `scales`.
    pub biases: Floats<'a>,
    /// `[rows, n]`: the result.
    pub y: FloatsMut<'a>,
}

/// [`matmul`] for several products that do not depend on each other: threads meet once and not
/// once a product. Results are those of the products alone.
///
/// # Errors
///
/// As [`matmul`]; no `y` is touched then.
pub fn matmuls(products: &mut [Product<'_>]) -> Result<(), Error> {
    matmuls_with(Execution::default(), products)
}

fn matmuls_with(execution: Execution, products: &mut [Product<'_>]) -> Result<(), Error> {
    execution.check()?;
    for product in products.iter() {
        let problem = &product.problem;
        problem.check_weight(product.w, product.scales, product.biases)?;
        problem.check_rows(product.x, &product.y)?;
    }
    let level = execution.level;
    let tasks: Vec<Task<'_>> = products
        .iter_mut()
        .filter(|product| product.problem.rows() > 0)
        .map(Task::new)
        .collect();
    let effort = tasks
        .iter()
        .fold(0, |sum: usize, task| sum.saturating_add(task.plan.effort));
    let parts = tasks.iter().map(Task::strips).sum();
    threads::share(parts, execution.threads, effort, &|part| {
        let mut strip = part;
        for task in &tasks {
            if strip < task.strips() {
                return task.run(strip, level);
            }
            strip -= task.strips();
        }
    });
    Ok(())
}

/// A checked product of at least one row, and how it is cut up.
struct Task<'a> {
    plan: Plan,
    weight: Weight<'a>,
    x: Activations,
    y: SharedFloats,
}

impl<'a> Task<'a> {
    fn new(product: &'a mut Product<'_>) -> Self {
        let problem = product.problem;
        Self {
            plan: Plan::new(&problem),
            weight: Weight {
                problem,
                words: product.w,
                scales: product.scales,
                biases: product.biases,
            },
            x: Activations::new(product.x, problem.rows(), problem.k()),
            y: product.y.shared(),
        }
    }

    fn strips(&self) -> usize {
        self.plan.strips(self.weight.problem.n())
    }

    /// Computes strip `index`.
    fn run(&self, index: usize, level: Level) {
        let (rows, n) = (self.weight.problem.rows(), self.weight.problem.n());
        let outputs = self.plan.strip(index, n);
        // SAFETY: `y` has been checked and stays borrowed, and strips have no output in common.
        let y = unsafe { Columns::new(self.y, rows, n, outputs.start, outputs.len()) };
        self.weight
            .with_strip(outputs.start, outputs.len(), |strip| match self.plan.path {
                Path::Fused => fused::multiply(level, strip, &self.x, &y),
                Path::Tiled { rows_at_once } => tiled::with_workspace(|workspace| {
                    tiled::multiply(level, strip, &self.x, rows_at_once, workspace, &y);
                }),
            });
    }
}
