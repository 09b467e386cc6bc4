//! Grouped-query self-attention.

use mlx_kernels::attention::{Rotation, Step};
use mlx_rs::{Array, Dtype, fast};

use super::{Linear, Pass};
use crate::cache::KvCache;
use crate::checkpoint::Checkpoint;
use crate::config::{ModelConfig, QuantizationScheme};
use crate::error::Result;
use crate::usage::LayerKind;

#[derive(Clone)]
pub(super) struct Attention {
    layer: usize,
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    /// Norms over each head of q and of k.
    head_norms: Option<(Array, Array)>,
    norm_eps: f32,
    rotation: Rotation,
    heads: i32,
    kv_heads: i32,
    head_dim: i32,
}

impl Attention {
    pub(super) fn load(
        checkpoint: &mut Checkpoint,
        config: &ModelConfig,
        layer: usize,
        rotation: &Rotation,
    ) -> Result<Self> {
        let path = format!("model.layers.{layer}.self_attn");
        let query_width = config.heads * config.head_dim;
        let kv_width = config.kv_heads * config.head_dim;
        let hidden = config.hidden_size;
        let mut linear = |kind: LayerKind, shape: [i32; 2], bias: bool| {
            let path = format!("{path}.{}", kind.name());
            Linear::load(checkpoint, &path, (kind, layer), shape, bias)
        };
        let q_proj = linear(LayerKind::QProj, [query_width, hidden], config.qkv_bias)?;
        let k_proj = linear(LayerKind::KProj, [kv_width, hidden], config.qkv_bias)?;
        let v_proj = linear(LayerKind::VProj, [kv_width, hidden], config.qkv_bias)?;
        let o_proj = linear(LayerKind::OProj, [hidden, query_width], config.output_bias)?;
        let head_norms = if config.qk_norm() {
            let mut norm =
                |name: &str| checkpoint.float(&format!("{path}.{name}.weight"), &[config.head_dim]);
            Some((norm("q_norm")?, norm("k_norm")?))
        } else {
            None
        };
        Ok(Self {
            layer,
            q_proj,
            k_proj,
            v_proj,
            o_proj,
            head_norms,
            norm_eps: config.norm_eps,
            rotation: rotation.clone(),
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
        })
    }

    /// `x` is `[1, tokens, hidden]`, and follows what the cache holds.
    pub(super) fn forward(&self, x: &Array, cache: &mut KvCache, pass: Pass<'_>) -> Result<Array> {
        let (q_norm, k_norm) = match &self.head_norms {
            Some((q_norm, k_norm)) => (Some(q_norm), Some(k_norm)),
            None => (None, None),
        };
        let projections = [&self.q_proj, &self.k_proj, &self.v_proj];
        let [queries, keys, values] = Linear::forward_all(projections, x, pass)?;
        let queries = self.split_heads(&queries, self.heads, q_norm)?;
        let keys = self.split_heads(&keys, self.kv_heads, k_norm)?;
        let values = self.split_heads(&values, self.kv_heads, None)?;
        let step = Step {
            queries: &queries,
            keys: &keys,
            values: &values,
            rotation: &self.rotation,
            scale: (self.head_dim as f32).powf(-0.5),
            offset: cache.len() as i32,
        };
        let held = cache.with_room(self.layer, &keys)?;
        self.o_proj
            .forward(&pass.kernels.attention(&step, held)?, pass)
    }

    /// `[1, tokens, heads * width]` to `[1, tokens, heads, width]`, each head normalised on the way.
    fn split_heads(&self, x: &Array, heads: i32, norm: Option<&Array>) -> Result<Array> {
        let split = x.reshape(&[1, x.dim(1), heads, self.head_dim])?;
        match norm {
            Some(weight) => Ok(fast::rms_norm(&split, Some(weight), self.norm_eps)?),
            None => Ok(split),
        }
    }

    pub(super) fn requantize(&self, scheme: QuantizationScheme, dtype: Dtype) -> Result<Self> {
        Ok(Self {
            q_proj: self.q_proj.requantize(scheme, dtype)?,
            k_proj: self.k_proj.requantize(scheme, dtype)?,
            v_proj: self.v_proj.requantize(scheme, dtype)?,
            o_proj: self.o_proj.requantize(scheme, dtype)?,
            ..self.clone()
        })
    }

    pub(super) fn arrays<'a>(&'a self, arrays: &mut Vec<&'a Array>) {
        for linear in [&self.q_proj, &self.k_proj, &self.v_proj, &self.o_proj] {
            linear.arrays(arrays);
        }
        if let Some((q_norm, k_norm)) = &self.head_norms {
            arrays.extend([q_norm, k_norm]);
        }
    }
}
