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

use crate::{Error, Execution, Floats, FloatsMut, threads};
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
    mut y: FloatsMut<'_>,
) -> Result<(), Error> {
    execution.check()?;
    problem.check_weight(w, scales, biases)?;
    problem.check_rows(x, &y)?;
    if problem.rows() == 0 {
        return Ok(());
    }
    let plan = Plan::new(problem);
    let weight = Weight {
        problem: *problem,
        words: w,
        scales,
        biases,
    };
    let x = Activations::new(x, problem.rows(), problem.k());
    let (y, level) = (y.shared(), execution.level);
    threads::share(
        plan.strips(problem.n()),
        execution.threads,
        plan.effort,
        &|index| {
            let outputs = plan.strip(index, problem.n());
            // SAFETY: `y` has been checked and stays borrowed, and strips have no output in common.
            let y = unsafe {
                Columns::new(y, problem.rows(), problem.n(), outputs.start, outputs.len())
            };
            weight.with_strip(outputs.start, outputs.len(), |strip| match plan.path {
                Path::Fused => fused::multiply(level, strip, &x, &y),
                Path::Tiled { rows_at_once } => tiled::with_workspace(|workspace| {
                    tiled::multiply(level, strip, &x, rows_at_once, workspace, &y);
                }),
            });
        },
    );
    Ok(())
}
