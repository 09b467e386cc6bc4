//! MLX's own operations.

use mlx_rs::{Array, ops};

use super::Kernels;
use crate::error::Result;
use crate::weight::QuantizedWeight;

/// Runs every operation as MLX ships it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stock;

impl Kernels for Stock {
    fn name(&self) -> &'static str {
        "stock"
    }

    fn quantized_matmul(&self, x: &Array, weight: &QuantizedWeight) -> Result<Array> {
        let scheme = weight.scheme();
        let product = ops::quantized_matmul(
            x,
            weight.packed(),
            weight.scales(),
            weight.biases(),
            true,
            scheme.group_size,
            scheme.bits,
        )?;
        // MLX promotes when activations and scales differ.
        Ok(product.as_dtype(x.dtype())?)
    }

    fn chosen_kernel(&self, _x: &Array, _weight: &QuantizedWeight) -> Result<String> {
        Ok("mlx quantized_matmul".to_owned())
    }
}
