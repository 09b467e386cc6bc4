//! This project's kernels.

use std::sync::Arc;

use mlx_kernels::affine::{self, Plan, Weight};
use mlx_kernels::trellis::{GatePlan, Selection};
use mlx_kernels::{Backend, Context, attention, gate, norm, sampling, trellis, with_context};
use mlx_rs::{Array, Dtype};

use super::{Kernels, Product, Stock, float32};
use crate::error::Result;
use crate::weight::{QuantizedWeight, TrellisMatrix};

/// Runs the operations of `mlx_kernels` under a context: on the back end, and with the demands,
/// that it holds.
#[derive(Debug, Clone)]
pub struct Extension {
    context: Arc<Context>,
}

impl Extension {
    /// Kernels that run under `context`.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self {
            context: Arc::new(context),
        }
    }
}

impl Kernels for Extension {
    fn name(&self) -> &'static str {
        self.context.backend().name()
    }

    fn dense_matmul(&self, x: &Array, weight: &Array) -> Result<Product> {
        let is_wide = [x, weight].map(Array::dtype) == [Dtype::Float32; 2];
        if self.context.backend() == Backend::Cpu && is_wide && x.size() > 0 {
            return Ok(Product {
                output: float32::matmul(x, weight)?,
                kernel: "cpu float32 matmul".into(),
            });
        }
        Stock.dense_matmul(x, weight)
    }

    fn quantized_matmul(&self, x: &Array, weight: &QuantizedWeight) -> Result<Product> {
        Ok(self.quantized_matmuls(x, &[weight])?.remove(0))
    }

    fn quantized_matmuls(&self, x: &Array, weights: &[&QuantizedWeight]) -> Result<Vec<Product>> {
        let weights: Vec<Weight<'_>> = weights
            .iter()
            .map(|weight| Weight {
                w: weight.packed(),
                scales: weight.scales(),
                biases: weight.biases(),
                group_size: weight.scheme().group_size,
                bits: weight.scheme().bits,
            })
            .collect();
        with_context(&self.context, || affine::quantized_matmuls(x, &weights))?
            .into_iter()
            .map(|planned| {
                let kernel = match planned.plan {
                    Plan::Stock => "mlx quantized_matmul".into(),
                    Plan::Cpu => "cpu simd".into(),
                    plan => format!("{plan} ({})", self.name()).into(),
                };
                Ok(Product {
                    output: planned.result.as_dtype(x.dtype())?,
                    kernel,
                })
            })
            .collect()
    }

    fn trellis_matmul(&self, x: &Array, weight: &TrellisMatrix) -> Result<Product> {
        let weight = weight.weight();
        let output = with_context(&self.context, || trellis::matmul(x, weight))?;
        let product = trellis::Product {
            geometry: *weight.geometry(),
            rows: rows(x),
            dtype: x.dtype(),
        };
        let (profile, options) = (self.context.profile(), self.context.options());
        let plan = trellis::plan(&product, profile, options, Selection::default());
        Ok(Product {
            output,
            kernel: plan.to_string().into(),
        })
    }

    fn trellis_swiglu(
        &self,
        x: &Array,
        gate: &TrellisMatrix,
        up: &TrellisMatrix,
    ) -> Result<Option<Product>> {
        let (gate, up) = (gate.weight(), up.weight());
        let plan = trellis::gate_plan(&self.context, gate, up, rows(x), x.dtype());
        if plan == GatePlan::Separate {
            return Ok(None);
        }
        let output = with_context(&self.context, || trellis::swiglu(x, gate, up))?;
        Ok(Some(Product {
            output,
            kernel: plan.to_string().into(),
        }))
    }

    fn trellis_down(&self, x: &Array, weight: &TrellisMatrix) -> Result<Product> {
        let weight = weight.weight();
        let output = with_context(&self.context, || trellis::down(x, weight))?;
        let plan = trellis::down_plan(&self.context, weight, rows(x), x.dtype());
        Ok(Product {
            output,
            kernel: plan.to_string().into(),
        })
    }

    fn add_rms_norm(
        &self,
        x: &Array,
        residual: &Array,
        weight: &Array,
        eps: f32,
    ) -> Result<(Array, Array)> {
        let sum = with_context(&self.context, || {
            norm::add_rms_norm(residual, x, weight, eps)
        })?;
        Ok((sum.residual, sum.normalized))
    }

    fn swiglu(&self, gate: &Array, up: &Array) -> Result<Array> {
        Ok(with_context(&self.context, || gate::swiglu(gate, up))?)
    }

    fn attention(&self, step: &attention::Step<'_>, cache: &mut attention::Cache) -> Result<Array> {
        Ok(with_context(&self.context, || {
            attention::attend(step, cache)
        })?)
    }

    fn greedy_token(&self, logits: &Array) -> Result<Array> {
        Ok(with_context(&self.context, || {
            sampling::normalized_argmax(logits)
        })?)
    }
}

/// Rows of an x that a model passes: of at least one dimension.
fn rows(x: &Array) -> i32 {
    x.shape()[..x.ndim() - 1].iter().product()
}
