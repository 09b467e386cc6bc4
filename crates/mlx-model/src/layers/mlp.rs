//! The gated MLP: `down(silu(gate(x)) * up(x))`.

use mlx_rs::{Array, Dtype};

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
        if let Some(output) = self.forward_coded(x, pass)? {
            return Ok(output);
        }
        let [gate, up] = Linear::forward_all([&self.gate, &self.up], x, pass)?;
        self.down.forward(&pass.kernels.swiglu(&gate, &up)?, pass)
    }

    /// Where all three weights are in trellis codes, and the kernels have one for gate and up.
    fn forward_coded(&self, x: &Array, pass: Pass<'_>) -> Result<Option<Array>> {
        let (Some(gate), Some(up), Some(down)) = (
            self.gate.plain_trellis(),
            self.up.plain_trellis(),
            self.down.plain_trellis(),
        ) else {
            return Ok(None);
        };
        let Some(gated) = pass.kernels.trellis_swiglu(x, gate, up)? else {
            return Ok(None);
        };
        for linear in [&self.gate, &self.up] {
            linear.note(x, &gated.kernel, pass);
        }
        let product = pass.kernels.trellis_down(&gated.output, down)?;
        self.down.note(&gated.output, &product.kernel, pass);
        Ok(Some(product.output))
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
