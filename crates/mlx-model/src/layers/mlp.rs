//! The gated MLP: `down(silu(gate(x)) * up(x))`.

use mlx_rs::{Array, Dtype, ops};

use super::{Linear, Pass};
use crate::checkpoint::Checkpoint;
use crate::config::{ModelConfig, QuantizationScheme};
use crate::error::Result;
use crate::usage::LayerKind;

#[derive(Clone)]
pub(super) struct Mlp {
    gate: Linear,
    up: Linear,
    down: Linear,
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
            gate: linear(LayerKind::GateProj, [inner, hidden])?,
            up: linear(LayerKind::UpProj, [inner, hidden])?,
            down: linear(LayerKind::DownProj, [hidden, inner])?,
        })
    }

    pub(super) fn forward(&self, x: &Array, pass: Pass<'_>) -> Result<Array> {
        let gate = self.gate.forward(x, pass)?;
        let silu = gate.multiply(ops::sigmoid(&gate)?)?;
        let gated = silu.multiply(self.up.forward(x, pass)?)?;
        self.down.forward(&gated, pass)
    }

    pub(super) fn requantize(&self, scheme: QuantizationScheme, dtype: Dtype) -> Result<Self> {
        Ok(Self {
            gate: self.gate.requantize(scheme, dtype)?,
            up: self.up.requantize(scheme, dtype)?,
            down: self.down.requantize(scheme, dtype)?,
        })
    }

    pub(super) fn arrays<'a>(&'a self, arrays: &mut Vec<&'a Array>) {
        for linear in [&self.gate, &self.up, &self.down] {
            linear.arrays(arrays);
        }
    }
}
