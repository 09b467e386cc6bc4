//! The gated MLP: `down(silu(gate(x)) * up(x))`.

use mlx_rs::{Array, Dtype, ops};

use super::{Linear, Pass};
use crate::checkpoint::Checkpoint;
use crate::config::{ModelConfig, QuantizationScheme};
use crate::error::Result;
use crate::usage::LayerKind;

#[derive(Clone)]
pub(super) struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

impl Mlp {
    pub(super) fn load(
        checkpoint: &mut Checkpoint,
        config: &ModelConfig,
        layer: usize,
    ) -> Result<Self> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let mut linear = |kind: LayerKind, shape: [i32; 2]| {
            let path = format!("model.layers.{layer}.mlp.{}", kind.name());
            Linear::load(checkpoint, &path, (kind, layer), shape, config.mlp_bias)
        };
        Ok(Self {
            gate_proj: linear(LayerKind::GateProj, [inner, hidden])?,
            up_proj: linear(LayerKind::UpProj, [inner, hidden])?,
            down_proj: linear(LayerKind::DownProj, [hidden, inner])?,
        })
    }

    pub(super) fn forward(&self, x: &Array, pass: Pass<'_>) -> Result<Array> {
        let gate = self.gate_proj.forward(x, pass)?;
        let silu = gate.multiply(ops::sigmoid(&gate)?)?;
        let gated = silu.multiply(self.up_proj.forward(x, pass)?)?;
        self.down_proj.forward(&gated, pass)
    }

    pub(super) fn requantize(&self, scheme: QuantizationScheme, dtype: Dtype) -> Result<Self> {
        Ok(Self {
            gate_proj: self.gate_proj.requantize(scheme, dtype)?,
            up_proj: self.up_proj.requantize(scheme, dtype)?,
            down_proj: self.down_proj.requantize(scheme, dtype)?,
        })
    }

    pub(super) fn arrays<'a>(&'a self, arrays: &mut Vec<&'a Array>) {
        for linear in [&self.gate_proj, &self.up_proj, &self.down_proj] {
            linear.arrays(arrays);
        }
    }
}
