//! A decoder block: attention and MLP, each behind a norm and beside the residual stream.

use mlx_kernels::attention::Rotation;
use mlx_rs::{Array, Dtype, fast};

use super::Pass;
use super::attention::Attention;
use super::mlp::Mlp;
use crate::cache::KvCache;
use crate::checkpoint::Checkpoint;
use crate::config::{ModelConfig, QuantizationScheme};
use crate::error::Result;

/// The residual stream between blocks, with what the last branch is yet to add.
///
/// The sum is left open so that it can be taken together with the norm that follows it.
pub(crate) struct Residual {
    stream: Array,
    pending: Option<Array>,
}

impl Residual {
    pub(crate) fn new(stream: Array) -> Self {
        Self {
            stream,
            pending: None,
        }
    }

    /// Adds what is pending and returns the stream's RMS norm.
    pub(crate) fn norm(&mut self, weight: &Array, eps: f32, pass: Pass<'_>) -> Result<Array> {
        match self.pending.take() {
            None => Ok(fast::rms_norm(&self.stream, Some(weight), eps)?),
            Some(branch) => {
                let (sum, normed) =
                    pass.kernels
                        .add_rms_norm(&branch, &self.stream, weight, eps)?;
                self.stream = sum;
                Ok(normed)
            }
        }
    }

    /// What it holds.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        std::iter::once(&self.stream).chain(&self.pending)
    }

    fn add(&mut self, branch: Array) {
        debug_assert!(
            self.pending.is_none(),
            "a branch was added without a norm before it"
        );
        self.pending = Some(branch);
    }
}

#[derive(Clone)]
pub(crate) struct Block {
    attention_norm: Array,
    attention: Attention,
    mlp_norm: Array,
    mlp: Mlp,
    norm_eps: f32,
}

impl Block {
    pub(crate) fn load(
        checkpoint: &mut Checkpoint,
        config: &ModelConfig,
        layer: usize,
        rotation: &Rotation,
    ) -> Result<Self> {
        let mut norm = |name: &str| {
            checkpoint.float(
                &format!("model.layers.{layer}.{name}.weight"),
                &[config.hidden_size],
            )
        };
        Ok(Self {
            attention_norm: norm("input_layernorm")?,
            mlp_norm: norm("post_attention_layernorm")?,
            attention: Attention::load(checkpoint, config, layer, rotation)?,
            mlp: Mlp::load(checkpoint, config, layer)?,
            norm_eps: config.norm_eps,
        })
    }

    pub(crate) fn forward(
        &self,
        residual: &mut Residual,
        cache: &mut KvCache,
        pass: Pass<'_>,
    ) -> Result<()> {
        let normed = residual.norm(&self.attention_norm, self.norm_eps, pass)?;
        residual.add(self.attention.forward(&normed, cache, pass)?);
        let normed = residual.norm(&self.mlp_norm, self.norm_eps, pass)?;
        residual.add(self.mlp.forward(&normed, pass)?);
        Ok(())
    }

    pub(crate) fn requantize(&self, scheme: QuantizationScheme, dtype: Dtype) -> Result<Self> {
        Ok(Self {
            attention: self.attention.requantize(scheme, dtype)?,
            mlp: self.mlp.requantize(scheme, dtype)?,
            ..self.clone()
        })
    }

    pub(crate) fn arrays<'a>(&'a self, arrays: &mut Vec<&'a Array>) {
        arrays.extend([&self.attention_norm, &self.mlp_norm]);
        self.attention.arrays(arrays);
        self.mlp.arrays(arrays);
    }
}
