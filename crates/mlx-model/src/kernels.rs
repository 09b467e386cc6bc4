//! The operations that a model leaves open: which kernels multiply, normalise and pick.

mod dense;
mod extension;
mod float32;
mod float64;
mod host_product;
mod stock;

pub use dense::Dense;
pub use extension::Extension;
pub use stock::Stock;

use std::borrow::Cow;

use mlx_kernels::{attention, gate};
use mlx_rs::{Array, fast, ops::indexing};

use crate::error::Result;
use crate::weight::{QuantizedWeight, TrellisMatrix};

/// A lazy product, and what computes it.
#[derive(Debug, Clone)]
pub struct Product {
    /// The result.
    pub output: Array,
    /// Name of the kernel that was chosen, for reports.
    pub kernel: Cow<'static, str>,
}

/// A set of kernels that a model runs under.
///
/// A model asks these at every forward pass, so that one loaded model runs under several sets.
pub trait Kernels {
    /// Name for reports, such as `stock`.
    fn name(&self) -> &str;

    /// `x` times the transpose of a matrix of its own dtype: `[.., columns]` to `[.., rows]`.
    ///
    /// # Errors
    /// Any error of the kernel or of MLX.
    fn dense_matmul(&self, x: &Array, weight: &Array) -> Result<Product> {
        Ok(Product {
            output: x.matmul(weight.t())?,
            kernel: "mlx matmul".into(),
        })
    }

    /// `x` times the transpose of `weight`: `[.., columns]` to `[.., rows]`, in `x`'s dtype.
    ///
    /// # Errors
    /// Any error of the kernel or of MLX.
    fn quantized_matmul(&self, x: &Array, weight: &QuantizedWeight) -> Result<Product>;

    /// [`Self::quantized_matmul`] for each of several weights.
    ///
    /// # Errors
    /// Any error of the kernels or of MLX.
    fn quantized_matmuls(&self, x: &Array, weights: &[&QuantizedWeight]) -> Result<Vec<Product>> {
        weights
            .iter()
            .map(|weight| self.quantized_matmul(x, weight))
            .collect()
    }

    /// The same for a weight in trellis codes.
    ///
    /// # Errors
    /// Any error of the kernel or of MLX.
    fn trellis_matmul(&self, x: &Array, weight: &TrellisMatrix) -> Result<Product>;

    /// `silu(gate(x)) * up(x)` for two weights in trellis codes, where there is one kernel for it:
    /// `[.., columns]` to `[.., rows]`.
    ///
    /// # Errors
    /// Any error of the kernel or of MLX.
    fn trellis_swiglu(
        &self,
        _x: &Array,
        _gate: &TrellisMatrix,
        _up: &TrellisMatrix,
    ) -> Result<Option<Product>> {
        Ok(None)
    }

    /// The down projection of an MLP that is in trellis codes throughout.
    ///
    /// # Errors
    /// Any error of the kernel or of MLX.
    fn trellis_down(&self, x: &Array, weight: &TrellisMatrix) -> Result<Product> {
        self.trellis_matmul(x, weight)
    }

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

    /// The gate of an MLP: `silu(gate) * up`.
    ///
    /// # Errors
    /// Any error of the kernel or of MLX.
    fn swiglu(&self, gate: &Array, up: &Array) -> Result<Array> {
        Ok(gate::stock(gate, up)?)
    }

    /// What new tokens see, `[1, tokens, heads * head width]`, once they are in `cache`.
    ///
    /// # Errors
    /// Any error of the kernel or of MLX.
    fn attention(&self, step: &attention::Step<'_>, cache: &mut attention::Cache) -> Result<Array> {
        Ok(attention::stock(step, cache)?)
    }

    /// The greedy token of each row, uint32: `[.., vocabulary]` to `[..]`. It is the first of the
    /// largest log-probabilities, which are rounded to the logits' dtype before they are compared.
    ///
    /// # Errors
    /// Any error of the kernel or of MLX.
    fn greedy_token(&self, logits: &Array) -> Result<Array> {
        let log_probabilities = logits.subtract(logits.logsumexp_axis(-1, true)?)?;
        Ok(indexing::argmax_axis(log_probabilities, -1, false)?)
    }
}
