//! The `<architecture>.*` metadata of GGUF files.

use super::{Architecture, ModelConfig, RopeConfig, RopeScaling, dimension};
use crate::error::{ModelError, Result};
use crate::gguf::Header;

impl ModelConfig {
    /// Reads the configuration from a GGUF header.
    ///
    /// # Errors
    /// Missing keys, unusable values, architectures and features outside this crate.
    pub fn from_gguf(header: &Header) -> Result<Self> {
        let architecture = Architecture::from_name(header.required_text("general.architecture")?)?;
        let keys = Keys {
            header,
            prefix: architecture.name(),
        };
        let hidden_size = keys.required("embedding_length")?;
        let heads = keys.required("attention.head_count")?;
        let head_dim = match keys.optional("attention.key_length")? {
            Some(width) => width,
            None => dimension("head width", i64::from(hidden_size / heads))?,
        };
        if let Some(width) = keys.optional("attention.value_length")?
            && width != head_dim
        {
            return Err(ModelError::invalid(
                "attention.value_length",
                width,
                head_dim.to_string(),
            ));
        }
        let eos_tokens = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"]
            .iter()
            .filter_map(|key| header.integer(key))
            .filter_map(|id| u32::try_from(id).ok())
            .collect();
        Self {
            architecture,
            hidden_size,
            layers: keys.required("block_count")? as usize,
            intermediate_size: keys.required("feed_forward_length")?,
            heads,
            kv_heads: keys.optional("attention.head_count_kv")?.unwrap_or(heads),
            head_dim,
            vocabulary: vocabulary(header)?,
            norm_eps: keys
                .number("attention.layer_norm_rms_epsilon")?
                .unwrap_or(1e-5),
            rope: rope(&keys, architecture, head_dim)?,
            context_length: keys.required("context_length")? as usize,
            tied_head: Some(header.tensor("output.weight").is_none()),
            qkv_bias: header.tensor("blk.0.attn_q.bias").is_some(),
            output_bias: header.tensor("blk.0.attn_output.bias").is_some(),
            mlp_bias: header.tensor("blk.0.ffn_up.bias").is_some(),
            residual_rotation: false,
            eos_tokens,
            quantization: None,
        }
        .validate()
    }
}

/// The embedding table's rows: `vocab_size` metadata is optional and sometimes counts otherwise.
fn vocabulary(header: &Header) -> Result<i32> {
    let table = header
        .tensor("token_embd.weight")
        .ok_or_else(|| ModelError::MissingTensor {
            name: "token_embd.weight".into(),
        })?;
    let rows = *table.shape.first().unwrap_or(&0);
    dimension(
        "rows of token_embd.weight",
        i64::try_from(rows).unwrap_or(i64::MAX),
    )
}

fn rope(keys: &Keys<'_>, architecture: Architecture, head_dim: i32) -> Result<RopeConfig> {
    let scaling = match keys
        .header
        .text(&keys.key("rope.scaling.type"))
        .unwrap_or("none")
    {
        "none" => RopeScaling::None,
        "linear" => RopeScaling::Linear {
            factor: keys.required_number("rope.scaling.factor")?,
        },
        "yarn" => {
            let factor = keys.required_number("rope.scaling.factor")?;
            RopeScaling::Yarn {
                factor,
                beta_fast: keys.number("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: keys.number("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                original_context: keys.required_number("rope.scaling.original_context_length")?,
                attention_factor: keys.number("rope.scaling.attn_factor")?.unwrap_or(1.0)
                    * RopeScaling::yarn_attention_factor(factor),
            }
        }
        other => {
            return Err(ModelError::invalid(
                "rope scaling type",
                format!("`{other}`"),
                "none, linear or yarn",
            ));
        }
    };
    Ok(RopeConfig {
        base: keys.number("rope.freq_base")?.unwrap_or(10_000.0),
        dimensions: keys.optional("rope.dimension_count")?.unwrap_or(head_dim),
        // Converters to GGUF reorder Llama's q and k rows so that rotated pairs are neighbours.
        traditional: architecture == Architecture::Llama,
        scaling,
    })
}

/// Look-ups below the architecture's prefix.
struct Keys<'a> {
    header: &'a Header,
    prefix: &'static str,
}

impl Keys<'_> {
    fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.prefix)
    }

    fn optional(&self, suffix: &str) -> Result<Option<i32>> {
        let key = self.key(suffix);
        match self.header.value(&key) {
            None => Ok(None),
            Some(value) => {
                let whole = value
                    .integer()
                    .ok_or_else(|| ModelError::invalid(&key, value.kind(), "a whole number"))?;
                dimension(&key, whole).map(Some)
            }
        }
    }

    fn required(&self, suffix: &str) -> Result<i32> {
        self.optional(suffix)?.ok_or_else(|| self.missing(suffix))
    }

    fn number(&self, suffix: &str) -> Result<Option<f32>> {
        let key = self.key(suffix);
        match self.header.value(&key) {
            None => Ok(None),
            Some(value) => value
                .number()
                .map(|number| Some(number as f32))
                .ok_or_else(|| ModelError::invalid(&key, value.kind(), "a number")),
        }
    }

    fn required_number(&self, suffix: &str) -> Result<f32> {
        self.number(suffix)?.ok_or_else(|| self.missing(suffix))
    }

    fn missing(&self, suffix: &str) -> ModelError {
        ModelError::MissingKey {
            path: self.header.path().into(),
            key: self.key(suffix),
        }
    }
}
