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
mod plan;
mod problem;
mod strip;
mod tiled;

pub use problem::Problem;

use crate::float::SharedFloats;
use crate::simd::{self, Kernel, Simd};
use crate::{Error, Execution, Floats, FloatsMut, threads};
use activations::Activations;
use plan::Plan;
use strip::{Strip, Weight};

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
    let result = Output {
        values: y.shared(),
        n: problem.n(),
    };
    threads::share(
        plan.strips(problem.n()),
        execution.threads,
        plan.effort,
        &|index| {
            let columns = plan.strip(index, problem.n());
            weight.with_strip(columns.start, columns.len(), |strip| {
                tiled::with_workspace(|workspace| {
                    let first = columns.start;
                    let product = Product {
                        strip,
                        first,
                        x: &x,
                        plan: &plan,
                        result,
                        workspace,
                    };
                    simd::enter(execution.level, product);
                });
            });
        },
    );
    Ok(())
}

/// The result, for threads that write disjoint columns of it.
#[derive(Debug, Clone, Copy)]
struct Output {
    values: SharedFloats,
    n: usize,
}

impl Output {
    /// Rounds and writes `values` to row `row`, from column `column` on.
    ///
    /// # Safety
    ///
    /// The row has those columns, and no other thread writes them.
    unsafe fn write(self, row: usize, column: usize, values: &[f32]) {
        // SAFETY: as the caller vouches.
        unsafe { self.values.write(row * self.n + column, values) }
    }
}

/// All rows against one strip.
struct Product<'a> {
    strip: &'a Strip<'a>,
    /// The strip's first output.
    first: usize,
    x: &'a Activations,
    plan: &'a Plan,
    result: Output,
    workspace: &'a mut tiled::Workspace,
}

impl Kernel for Product<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(mut self) {
        // SAFETY: the caller has the instructions enabled.
        unsafe {
            match self.plan.bits {
                2 => self.with_bits::<S, 2>(),
                3 => self.with_bits::<S, 3>(),
                4 => self.with_bits::<S, 4>(),
                5 => self.with_bits::<S, 5>(),
                6 => self.with_bits::<S, 6>(),
                _ => self.with_bits::<S, 8>(),
            }
        }
    }
}

impl Product<'_> {
    #[inline(always)]
    unsafe fn with_bits<S: Simd, const BITS: usize>(&mut self) {
        // SAFETY: the caller has the instructions enabled.
        unsafe {
            match self.plan.rows {
                1 => self.fused::<S, BITS, 1, 4>(),
                2 => self.fused::<S, BITS, 2, 4>(),
                3 => self.fused::<S, BITS, 3, 4>(),
                4 => self.fused::<S, BITS, 4, 4>(),
                _ => self.tiled::<S, BITS>(),
            }
        }
    }

    /// `ROWS` rows, all there are, `COLUMNS` outputs at a time and the rest one by one.
    #[inline(always)]
    unsafe fn fused<S: Simd, const BITS: usize, const ROWS: usize, const COLUMNS: usize>(&self) {
        let columns = self.strip.columns();
        let whole = columns / COLUMNS * COLUMNS;
        for column in (0..whole).step_by(COLUMNS) {
            // SAFETY: the strip has these outputs, and its thread alone writes them.
            unsafe {
                let sums = fused::sums::<S, BITS, ROWS, COLUMNS>(self.strip, column, self.x, 0);
                for (row, sums) in sums.iter().enumerate() {
                    self.result.write(row, self.first + column, sums);
                }
            }
        }
        for column in whole..columns {
            // SAFETY: as above.
            unsafe {
                let sums = fused::sums::<S, BITS, ROWS, 1>(self.strip, column, self.x, 0);
                for (row, sums) in sums.iter().enumerate() {
                    self.result.write(row, self.first + column, sums);
                }
            }
        }
    }

    /// All rows, some of them at a time.
    #[inline(always)]
    unsafe fn tiled<S: Simd, const BITS: usize>(&mut self) {
        let columns = self.strip.columns();
        for first in (0..self.plan.rows).step_by(self.plan.rows_at_once) {
            let rows = first..self.plan.rows.min(first + self.plan.rows_at_once);
            // SAFETY: `x` has the rows; the strip's thread alone writes its outputs.
            unsafe {
                let totals =
                    tiled::strip_sums::<S, BITS>(self.strip, self.x, rows.clone(), self.workspace);
                for (row, totals) in rows.zip(totals.chunks_exact(columns)) {
                    self.result.write(row, self.first, totals);
                }
            }
        }
    }
}
