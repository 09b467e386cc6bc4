//! MLX's own operations.

use mlx_rs::{Array, Dtype, ops};

use super::{Kernels, Product};
use crate::error::Result;
use crate::weight::{QuantizedWeight, TrellisMatrix};

/// Runs every operation as MLX ships it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stock;

impl Kernels for Stock {
    fn name(&self) -> &'static str {
        "stock"
    }

    fn quantized_matmul(&self, x: &Array, weight: &QuantizedWeight) -> Result<Product> {
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
        Ok(Product {
            output: product.as_dtype(x.dtype())?,
            kernel: "mlx quantized_matmul".into(),
        })
    }

    /// MLX has no operation for trellis codes: they are decoded to float32, anew each time.
    fn trellis_matmul(&self, x: &Array, weight: &TrellisMatrix) -> Result<Product> {
        let product = x.as_dtype(Dtype::Float32)?.matmul(weight.decode()?.t())?;
        Ok(Product {
            output: product.as_dtype(x.dtype())?,
            kernel: "decode + mlx float32 matmul".into(),
        })
    }
}
