//! Statistics of a layer's inputs, and the factor that error feedback uses.

use std::borrow::Cow;

use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors, View};

use super::gemm::{Matrix, add_transposed_product, subtract_gram};
use crate::encode::check_finite;
use crate::error::expect_length;
use crate::{Error, Result};

/// `sum of x x^T` over the inputs `x` of a layer: the Hessian of its squared output error, up to a factor.
#[derive(Clone, Debug)]
pub struct Hessian {
    features: usize,
    samples: usize,
    /// `[features, features]`; only the lower triangle is kept up to date.
    sum: Vec<f64>,
}

impl Hessian {
    /// An empty sum over inputs of `features` numbers. Takes `8 features^2` bytes.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn new(features: usize) -> Result<Self> {
        let too_large = Error::TooLarge {
            shape: vec![features, features],
        };
        let elements = features
            .checked_mul(features)
            .filter(|&n| n <= isize::MAX as usize / 8);
        Ok(Self {
            features,
            samples: 0,
            sum: vec![0.0; elements.ok_or(too_large)?],
        })
    }

    /// Input features of the layer.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Inputs added so far.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Adds inputs, `[samples, features]` row-major. Products are summed in f32 within a call and in f64 across calls.
    ///
    /// # Errors
    /// [`Error::Length`] when the inputs are no whole number of rows, [`Error::NotFinite`].
    pub fn add(&mut self, inputs: &[f32]) -> Result<()> {
        const PANEL: usize = 64;
        let n = self.features;
        expect_length(
            "the array of inputs",
            inputs.len(),
            inputs.len().next_multiple_of(n.max(1)),
        )?;
        if n == 0 || inputs.is_empty() {
            return Ok(());
        }
        check_finite("the array of inputs", inputs, n)?;
        let samples = inputs.len() / n;
        self.sum
            .par_chunks_mut(PANEL * n)
            .enumerate()
            .for_each(|(panel, rows)| {
                let (top, count) = (panel * PANEL, rows.len() / n);
                let width = top + count;
                let mut product = vec![0.0; count * width];
                let left = Matrix::new(&inputs[top..], samples, count, n);
                add_transposed_product(left, Matrix::new(inputs, samples, width, n), &mut product);
                for (row, product) in rows.chunks_exact_mut(n).zip(product.chunks_exact(width)) {
                    for (sum, term) in row.iter_mut().zip(product) {
                        *sum += f64::from(*term);
                    }
                }
            });
        self.samples += samples;
        Ok(())
    }

    /// The factor of blocks of `block` features, after adding `damping` times the mean of the diagonal to the diagonal
    /// (0.01 is usual; a layer that saw nothing but zeros gets the zero factor).
    ///
    /// Takes `8 features^2` bytes besides the Hessian and `4 features^2` for the result.
    ///
    /// # Errors
    /// [`Error::PartialBlock`] when the block does not divide the features, [`Error::NotPositiveDefinite`] when the
    /// Hessian is singular in spite of the damping.
    pub fn factor(&self, block: usize, damping: f64) -> Result<HessianFactor> {
        let n = self.features;
        check_block(n, block)?;
        let mut work = self.sum.clone();
        let trace: f64 = (0..n).map(|i| work[i * n + i]).sum();
        let ridge = if trace > 0.0 {
            damping * trace / n as f64
        } else {
            1.0
        };
        for i in 0..n {
            work[i * n + i] += ridge;
        }
        let mut factor = vec![0.0; n * n];
        for first in (0..n).step_by(block) {
            eliminate_block(&mut work, n, first, block, damping)?;
            write_factor_columns(&work, &mut factor, n, first, block);
            let after = first + block;
            let (panel, square) = split_panel(&mut work, n, first, block);
            subtract_gram(
                Matrix::new(&panel, n - after, block, block),
                square,
                after,
                n,
            );
        }
        Ok(HessianFactor {
            shape: [n; 2],
            block,
            lower: factor,
        })
    }
}

fn check_block(features: usize, block: usize) -> Result<()> {
    if block == 0 || !features.is_multiple_of(block) {
        return Err(Error::PartialBlock {
            cols: features,
            block,
        });
    }
    Ok(())
}

/// Replaces the block column from `first` on by that of the Cholesky factor: its diagonal block `C` and `A C^-T` below.
fn eliminate_block(
    work: &mut [f64],
    n: usize,
    first: usize,
    block: usize,
    damping: f64,
) -> Result<()> {
    for i in first..first + block {
        let (above, row) = work.split_at_mut(i * n);
        for j in first..i {
            let other = &above[j * n + first..j * n + j];
            let dot: f64 = row[first..j].iter().zip(other).map(|(a, b)| a * b).sum();
            row[j] = (row[j] - dot) / above[j * n + j];
        }
        let pivot = row[i] - row[first..i].iter().map(|a| a * a).sum::<f64>();
        if pivot <= 0.0 || !pivot.is_finite() {
            return Err(Error::NotPositiveDefinite {
                row: i,
                pivot,
                damping,
            });
        }
        row[i] = pivot.sqrt();
    }
    let (above, below) = work.split_at_mut((first + block) * n);
    below.par_chunks_mut(n).for_each(|row| {
        for j in first..first + block {
            let dot: f64 = row[first..j]
                .iter()
                .zip(&above[j * n + first..])
                .map(|(a, b)| a * b)
                .sum();
            row[j] = (row[j] - dot) / above[j * n + j];
        }
    });
    Ok(())
}

/// Solves `y C = row` for every row below the diagonal block: the unit block-lower factor.
fn write_factor_columns(work: &[f64], factor: &mut [f32], n: usize, first: usize, block: usize) {
    let after = first + block;
    factor[after * n..]
        .par_chunks_mut(n)
        .zip(work[after * n..].par_chunks(n))
        .for_each(|(out, row)| {
            let mut solved = row[first..after].to_vec();
            for j in (0..block).rev() {
                let diagonal = &work[(first + j) * n + first..];
                solved[j] /= diagonal[j];
                let value = solved[j];
                for (earlier, c) in solved[..j].iter_mut().zip(diagonal) {
                    *earlier -= value * c;
                }
            }
            for (out, value) in out[first..after].iter_mut().zip(solved) {
                *out = value as f32;
            }
        });
}

/// A copy of the rows of a block column below its diagonal block, and the matrix rows they belong to.
fn split_panel(work: &mut [f64], n: usize, first: usize, block: usize) -> (Vec<f64>, &mut [f64]) {
    let after = first + block;
    let below = &mut work[after * n..];
    let panel = below
        .chunks_exact(n)
        .flat_map(|row| &row[first..after])
        .copied()
        .collect();
    (panel, below)
}

/// The unit block-lower factor `L` of a Hessian `H = L D L^T`, less its identity blocks.
///
/// Element `[j, i]` says how much of the error of input `j` the earlier input `i` should make up for.
#[derive(Clone, Debug, PartialEq)]
pub struct HessianFactor {
    shape: [usize; 2],
    block: usize,
    lower: Vec<f32>,
}

impl HessianFactor {
    /// A factor from its elements, `[features, features]` row-major. Only what lies below the diagonal blocks of `block`
    /// features is used.
    ///
    /// # Errors
    /// [`Error::PartialBlock`] when the block does not divide the features, [`Error::Length`] when the elements are not
    /// a square, [`Error::NotFinite`].
    pub fn new(features: usize, block: usize, lower: Vec<f32>) -> Result<Self> {
        check_block(features, block)?;
        expect_length(
            "the Hessian factor",
            lower.len(),
            features.saturating_mul(features),
        )?;
        check_finite("the Hessian factor", &lower, features.max(1))?;
        Ok(Self {
            shape: [features; 2],
            block,
            lower,
        })
    }

    /// Reads the one tensor `L` of the file of a factor in blocks of `block` features.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::FactorTensor`] when it is not a square f32 matrix, or as
    /// [`HessianFactor::new`].
    pub fn read(file: &SafeTensors<'_>, block: usize) -> Result<Self> {
        let missing = |_| Error::MissingTensor {
            module: "the factor's file".into(),
            tensor: "L",
        };
        let tensor = file.tensor("L").map_err(missing)?;
        match *tensor.shape() {
            [n, m] if n == m && tensor.dtype() == Dtype::F32 => {
                let chunks = tensor.data().as_chunks().0;
                Self::new(
                    n,
                    block,
                    chunks
                        .iter()
                        .map(|&bytes| f32::from_le_bytes(bytes))
                        .collect(),
                )
            }
            _ => Err(Error::FactorTensor {
                dtype: tensor.dtype(),
                shape: tensor.shape().to_vec(),
            }),
        }
    }

    /// Input features of the layer.
    #[must_use]
    pub fn features(&self) -> usize {
        self.shape[0]
    }

    /// Input features that share a diagonal block.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// The elements, `[features, features]` row-major.
    #[must_use]
    pub fn elements(&self) -> &[f32] {
        &self.lower
    }
}

impl View for &HessianFactor {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.lower
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    fn data_len(&self) -> usize {
        4 * self.lower.len()
    }
}
