//! The reference: weights widened to float32, plain products.

use std::cell::RefCell;
use std::collections::HashMap;

use mlx_rs::{Array, Dtype};

use super::{Kernels, Product, float64};
use crate::error::Result;
use crate::weight::{QuantizedWeight, TrellisMatrix};

/// Dequantizes each matrix to float32, once, and multiplies with it; the result is rounded to the
/// activations' dtype. What the other kernels approximate.
#[derive(Debug)]
pub struct Dense {
    sums: Sums,
    /// Decoded matrices by the weight's id: 4 bytes of memory a weight.
    kept: RefCell<HashMap<u64, Array>>,
}

/// Where, and how precisely, products are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sums {
    Float64,
    Device,
}

impl Dense {
    /// Sums in float64, on the CPU. Only this is nearer the truth than every float32 kernel: a
    /// plain float32 product has rounding errors of the same size as theirs.
    #[must_use]
    pub fn float64() -> Self {
        Self {
            sums: Sums::Float64,
            kept: RefCell::default(),
        }
    }

    /// MLX's float32 product, on its device: for activations of 16 bits, whose own rounding is far
    /// larger than that of float32 sums.
    #[must_use]
    pub fn device() -> Self {
        Self {
            sums: Sums::Device,
            kept: RefCell::default(),
        }
    }

    /// The matrix of the weight `id`, which `decode` makes when it is first asked for.
    fn matrix(&self, id: u64, decode: impl FnOnce() -> Result<Array>) -> Result<Array> {
        if let Some(matrix) = self.kept.borrow().get(&id) {
            return Ok(matrix.clone());
        }
        let matrix = decode()?;
        matrix.eval()?;
        self.kept.borrow_mut().insert(id, matrix.clone());
        Ok(matrix)
    }

    fn multiply(&self, x: &Array, matrix: &Array) -> Result<Product> {
        let wide = x.as_dtype(Dtype::Float32)?;
        let (product, kernel) = match self.sums {
            Sums::Float64 => (float64::matmul(&wide, matrix)?, "float64 sums"),
            Sums::Device => (wide.matmul(matrix.t())?, "mlx float32 matmul"),
        };
        Ok(Product {
            output: product.as_dtype(x.dtype())?,
            kernel: kernel.into(),
        })
    }
}

impl Kernels for Dense {
    fn name(&self) -> &'static str {
        "dense"
    }

    fn quantized_matmul(&self, x: &Array, weight: &QuantizedWeight) -> Result<Product> {
        self.multiply(x, &self.matrix(weight.id(), || weight.dequantize())?)
    }

    fn trellis_matmul(&self, x: &Array, weight: &TrellisMatrix) -> Result<Product> {
        self.multiply(x, &self.matrix(weight.id(), || weight.decode())?)
    }
}
