//! What a model is made of: sizes, variants and limits, whichever file they came from.

mod gguf;
mod hf;
mod quantization;
mod rope;
mod to_hf;

pub(crate) use hf::{RESIDUAL_ROTATION, eos_tokens};
pub use quantization::{Declared, QuantizationConfig, QuantizationScheme};
pub use rope::{RopeConfig, RopeScaling};

use crate::error::{ModelError, Result};
use crate::usage::LayerKind;

/// The model families that the stack in [`crate::Model`] covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Llama and its many relatives: no biases unless the configuration asks for them.
    Llama,
    /// Qwen2: biases on q, k and v.
    Qwen2,
    /// Qwen3: RMS norms over each head of q and k.
    Qwen3,
}

impl Architecture {
    /// Name that both GGUF metadata and `model_type` of `config.json` use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// Finds an architecture by name.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for a name that this crate does not know.
    pub fn from_name(name: &str) -> Result<Self> {
        [Self::Llama, Self::Qwen2, Self::Qwen3]
            .into_iter()
            .find(|architecture| architecture.name() == name)
            .ok_or_else(|| {
                ModelError::invalid(
                    "model architecture",
                    format!("`{name}`"),
                    "llama, qwen2 or qwen3",
                )
            })
    }
}

/// Everything about a model except its weights.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of config.json"
)]
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// Model family.
    pub architecture: Architecture,
    /// Width of the residual stream.
    pub hidden_size: i32,
    /// Number of decoder blocks.
    pub layers: usize,
    /// Width of the MLP between its two projections.
    pub intermediate_size: i32,
    /// Query heads.
    pub heads: i32,
    /// Key and value heads; divides `heads`.
    pub kv_heads: i32,
    /// Width of one head.
    pub head_dim: i32,
    /// Rows of the embedding table.
    pub vocabulary: i32,
    /// Added to the mean square in every RMS norm.
    pub norm_eps: f32,
    /// Rotary position embedding.
    pub rope: RopeConfig,
    /// Longest sequence that the model was made for, in tokens.
    pub context_length: usize,
    /// Whether the embedding table is also the output head; `None` where only the tensors tell.
    pub tied_head: Option<bool>,
    /// Biases on the q, k and v projections.
    pub qkv_bias: bool,
    /// Bias on the attention's output projection.
    pub output_bias: bool,
    /// Biases on the MLP's projections.
    pub mlp_bias: bool,
    /// Whether the residual stream is in another basis than the embedding table and the head, with the
    /// change between them stored beside the blocks.
    pub residual_rotation: bool,
    /// Tokens that end a text.
    pub eos_tokens: Vec<u32>,
    /// How weights are said to be quantized; `None` where the file format has no such statement.
    pub quantization: Option<QuantizationConfig>,
}

/// Far above any real model, and low enough for products of two to fit i64.
const MAX_DIMENSION: i64 = 1 << 24;
const MAX_LAYERS: usize = 4096;

impl ModelConfig {
    /// Whether q and k pass an RMS norm per head before the rotary embedding.
    #[must_use]
    pub fn qk_norm(&self) -> bool {
        self.architecture == Architecture::Qwen3
    }

    /// Fails if a token is outside the vocabulary.
    pub(crate) fn check_tokens(&self, tokens: &[u32]) -> Result<()> {
        let vocabulary = self.vocabulary as usize;
        match tokens.iter().find(|&&token| token as usize >= vocabulary) {
            Some(&found) => Err(ModelError::TokenOutOfRange { found, vocabulary }),
            None => Ok(()),
        }
    }

    /// The projections of a block, in order: kind, output and input features.
    pub(crate) fn projections(&self) -> [(LayerKind, [i32; 2]); 7] {
        let (hidden, inner) = (self.hidden_size, self.intermediate_size);
        let queries = self.heads * self.head_dim;
        let keys = self.kv_heads * self.head_dim;
        [
            (LayerKind::QProj, [queries, hidden]),
            (LayerKind::KProj, [keys, hidden]),
            (LayerKind::VProj, [keys, hidden]),
            (LayerKind::OProj, [hidden, queries]),
            (LayerKind::GateProj, [inner, hidden]),
            (LayerKind::UpProj, [inner, hidden]),
            (LayerKind::DownProj, [hidden, inner]),
        ]
    }

    /// The same model with another context extension.
    pub(crate) fn with_rope_scaling(mut self, scaling: RopeScaling) -> Result<Self> {
        self.rope.scaling = scaling;
        self.validate()
    }

    fn validate(self) -> Result<Self> {
        if self.layers == 0 || self.layers > MAX_LAYERS {
            return Err(ModelError::invalid(
                "number of layers",
                self.layers,
                format!("1 to {MAX_LAYERS}"),
            ));
        }
        if self.heads % self.kv_heads != 0 {
            return Err(ModelError::invalid(
                "number of key/value heads",
                self.kv_heads,
                format!("a divisor of the {} query heads", self.heads),
            ));
        }
        if !(self.norm_eps.is_finite() && self.norm_eps >= 0.0) {
            return Err(ModelError::invalid(
                "RMS norm epsilon",
                self.norm_eps,
                "finite, not negative",
            ));
        }
        if self.context_length == 0 {
            return Err(ModelError::invalid("context length", 0, "at least 1"));
        }
        self.rope.validate(self.head_dim)?;
        Ok(self)
    }
}

/// Checks a size read from a file and narrows it to what MLX takes.
fn dimension(what: &str, value: i64) -> Result<i32> {
    if (1..=MAX_DIMENSION).contains(&value) {
        Ok(value as i32)
    } else {
        Err(ModelError::invalid(
            what,
            value,
            format!("1 to {MAX_DIMENSION}"),
        ))
    }
}
