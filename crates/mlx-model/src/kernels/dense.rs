//! The reference: weights widened to float32, plain products.

use std::cell::RefCell;
use std::collections::HashMap;

use mlx_rs::{Array, Dtype};

use super::{Kernels, Product};
use crate::error::Result;
use crate::weight::QuantizedWeight;

/// Dequantizes each matrix to float32 and multiplies in float32; the result is rounded to the
/// activations' dtype. What the other kernels approximate.
#[derive(Debug, Default)]
pub struct Dense {
    /// Dequantized matrices by [`QuantizedWeight::id`], where they are kept.
    kept: Option<RefCell<HashMap<u64, Array>>>,
}

impl Dense {
    /// Dequantizes each matrix once and keeps it: 4 bytes of memory per weight.
    #[must_use]
    pub fn keeping() -> Self {
        Self {
            kept: Some(RefCell::default()),
        }
    }

    /// Dequantizes each matrix whenever it is used.
    #[must_use]
    pub fn streaming() -> Self {
        Self { kept: None }
    }

    fn matrix(&self, weight: &QuantizedWeight) -> Result<Array> {
        let Some(kept) = &self.kept else {
            return weight.dequantize();
        };
        if let Some(matrix) = kept.borrow().get(&weight.id()) {
            return Ok(matrix.clone());
        }
        let matrix = weight.dequantize()?;
        matrix.eval()?;
        kept.borrow_mut().insert(weight.id(), matrix.clone());
        Ok(matrix)
    }
}

impl Kernels for Dense {
    fn name(&self) -> &'static str {
        "dense"
    }

    fn quantized_matmul(&self, x: &Array, weight: &QuantizedWeight) -> Result<Product> {
        let product = x
            .as_dtype(Dtype::Float32)?
            .matmul(self.matrix(weight)?.t())?;
        Ok(Product {
            output: product.as_dtype(x.dtype())?,
            kernel: "float32 matmul".into(),
        })
    }
}
