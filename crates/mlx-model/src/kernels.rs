//! The operations that a model leaves open: which kernels multiply, normalise and pick.

mod dense;
mod stock;

pub use dense::Dense;
pub use stock::Stock;

use mlx_rs::{Array, fast, ops::indexing};

use crate::error::Result;
use crate::weight::QuantizedWeight;

/// A set of kernels that a model runs under.
///
/// A model asks these at every forward pass, so that one loaded model runs under several sets.
pub trait Kernels {
    /// Name for reports, such as `stock`.
    fn name(&self) -> &str;

    /// `x` times the transpose of `weight`: `[.., columns]` to `[.., rows]`, in `x`'s dtype.
    ///
    /// # Errors
    /// Any error of the kernel or of MLX.
    fn quantized_matmul(&self, x: &Array, weight: &QuantizedWeight) -> Result<Array>;

    /// Name of the kernel that [`Self::quantized_matmul`] takes for these arguments.
    ///
    /// # Errors
    /// Any error that choosing a kernel can give.
    fn chosen_kernel(&self, x: &Array, weight: &QuantizedWeight) -> Result<String>;

    /// The residual stream's step: `x + residual`, and its RMS norm scaled by `weight`.
    ///
    /// # Errors
    /// Any error of the kernel or of MLX.
    fn add_rms_norm(
        &self,
        x: &Array,
        residual: &Array,
        weight: &Array,
        eps: f32,
    ) -> Result<(Array, Array)> {
        let sum = x.add(residual)?;
        let normed = fast::rms_norm(&sum, Some(weight), eps)?;
        Ok((sum, normed))
    }

    /// Index of each row's largest logit, uint32, the first of equals: `[.., vocabulary]` to `[..]`.
    ///
    /// # Errors
    /// Any error of the kernel or of MLX.
    fn argmax(&self, logits: &Array) -> Result<Array> {
        Ok(indexing::argmax_axis(logits, -1, false)?)
    }
}
