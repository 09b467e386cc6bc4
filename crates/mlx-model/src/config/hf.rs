//! `config.json` of MLX and Hugging Face folders.

use std::path::Path;

use serde_json::Value;

use super::{Architecture, ModelConfig, QuantizationConfig, RopeConfig, RopeScaling, dimension};
use crate::error::{ModelError, Result};

/// Key of `config.json` that says whether the residual stream is rotated.
pub(crate) const RESIDUAL_ROTATION: &str = "residual_rotation";

impl ModelConfig {
    /// Reads the configuration of a Hugging Face or MLX folder. `path` is named in errors only.
    ///
    /// # Errors
    /// Missing keys, unusable values, architectures and features outside this crate.
    pub fn from_hf_json(path: &Path, json: &Value) -> Result<Self> {
        let fields = Fields { path, json };
        let name = fields
            .json
            .get("model_type")
            .and_then(Value::as_str)
            .ok_or_else(|| ModelError::MissingKey {
                path: path.into(),
                key: "model_type".into(),
            })?;
        let architecture = Architecture::from_name(name)?;
        fields.refuse_unsupported()?;

        let hidden_size = fields.required("hidden_size")?;
        let heads = fields.required("num_attention_heads")?;
        let head_dim = match fields.optional("head_dim")? {
            Some(width) => width,
            None if hidden_size % heads == 0 => hidden_size / heads,
            None => {
                return Err(ModelError::invalid(
                    "hidden_size",
                    hidden_size,
                    format!("a multiple of the {heads} attention heads, or head_dim given"),
                ));
            }
        };
        let context_length = fields.required("max_position_embeddings")? as usize;
        let attention_bias = fields.flag("attention_bias")?.unwrap_or(false);
        let quantization = json
            .get("quantization")
            .or_else(|| json.get("quantization_config"));
        Self {
            architecture,
            hidden_size,
            layers: fields.required("num_hidden_layers")? as usize,
            intermediate_size: fields.required("intermediate_size")?,
            heads,
            kv_heads: fields.optional("num_key_value_heads")?.unwrap_or(heads),
            head_dim,
            vocabulary: fields.required("vocab_size")?,
            norm_eps: fields.number("rms_norm_eps")?.unwrap_or(1e-6),
            rope: fields.rope(head_dim, context_length)?,
            context_length,
            tied_head: fields.flag("tie_word_embeddings")?,
            qkv_bias: attention_bias || architecture == Architecture::Qwen2,
            output_bias: attention_bias,
            mlp_bias: fields.flag("mlp_bias")?.unwrap_or(false),
            residual_rotation: fields.flag(RESIDUAL_ROTATION)?.unwrap_or(false),
            eos_tokens: eos_tokens(json),
            quantization: Some(match quantization {
                Some(block) if !block.is_null() => QuantizationConfig::from_json(block)?,
                _ => QuantizationConfig::default(),
            }),
        }
        .validate()
    }
}

/// End-of-text token ids of a `config.json` or `generation_config.json`: one, several or none.
pub(crate) fn eos_tokens(json: &Value) -> Vec<u32> {
    let ids = match json.get("eos_token_id") {
        Some(Value::Array(ids)) => ids.as_slice(),
        Some(id) => std::slice::from_ref(id),
        None => &[],
    };
    ids.iter()
        .filter_map(Value::as_u64)
        .filter_map(|id| u32::try_from(id).ok())
        .collect()
}

/// Typed look-ups in the JSON object; `null` counts as absent.
struct Fields<'a> {
    path: &'a Path,
    json: &'a Value,
}

impl Fields<'_> {
    fn optional(&self, key: &str) -> Result<Option<i32>> {
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let whole = value
                    .as_i64()
                    .ok_or_else(|| ModelError::invalid(key, value, "a whole number"))?;
                dimension(key, whole).map(Some)
            }
        }
    }

    fn required(&self, key: &str) -> Result<i32> {
        self.optional(key)?.ok_or_else(|| ModelError::MissingKey {
            path: self.path.into(),
            key: key.into(),
        })
    }

    fn number(&self, key: &str) -> Result<Option<f32>> {
        number(self.json, key)
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_bool()
                .map(Some)
                .ok_or_else(|| ModelError::invalid(key, value, "true or false")),
        }
    }

    fn refuse_unsupported(&self) -> Result<()> {
        if let Some(activation) = self.json.get("hidden_act").and_then(Value::as_str)
            && activation != "silu"
        {
            return Err(ModelError::invalid("hidden_act", activation, "silu"));
        }
        if self.flag("use_sliding_window")? == Some(true) {
            return Err(ModelError::invalid("use_sliding_window", true, "false"));
        }
        Ok(())
    }

    fn rope(&self, head_dim: i32, context_length: usize) -> Result<RopeConfig> {
        // `rope_parameters` is the newer name, which also holds the base.
        let block = ["rope_parameters", "rope_scaling"]
            .iter()
            .filter_map(|key| self.json.get(key))
            .find(|block| block.is_object());
        let base = match block
            .map(|block| number(block, "rope_theta"))
            .transpose()?
            .flatten()
        {
            Some(base) => base,
            None => self.number("rope_theta")?.unwrap_or(10_000.0),
        };
        let fraction = self.number("partial_rotary_factor")?.unwrap_or(1.0);
        Ok(RopeConfig {
            base,
            dimensions: (head_dim as f32 * fraction) as i32,
            traditional: self.flag("rope_traditional")?.unwrap_or(false),
            scaling: block.map_or(Ok(RopeScaling::None), |block| {
                rope_scaling(block, context_length)
            })?,
        })
    }
}

fn rope_scaling(block: &Value, context_length: usize) -> Result<RopeScaling> {
    let kind = block
        .get("rope_type")
        .or_else(|| block.get("type"))
        .and_then(Value::as_str);
    let required = |key: &str| {
        number(block, key)?.ok_or_else(|| {
            ModelError::invalid(format!("rope scaling `{key}`"), "absent", "a number")
        })
    };
    let original_context = || {
        Ok::<_, ModelError>(
            number(block, "original_max_position_embeddings")?.unwrap_or(context_length as f32),
        )
    };
    match kind.unwrap_or("default") {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear {
            factor: required("factor")?,
        }),
        "llama3" => Ok(RopeScaling::Llama3 {
            factor: required("factor")?,
            low_freq_factor: required("low_freq_factor")?,
            high_freq_factor: required("high_freq_factor")?,
            original_context: original_context()?,
        }),
        "yarn" => {
            let factor = required("factor")?;
            Ok(RopeScaling::Yarn {
                factor,
                beta_fast: number(block, "beta_fast")?.unwrap_or(32.0),
                beta_slow: number(block, "beta_slow")?.unwrap_or(1.0),
                original_context: original_context()?,
                attention_factor: number(block, "attention_factor")?
                    .unwrap_or_else(|| RopeScaling::yarn_attention_factor(factor)),
            })
        }
        other => Err(ModelError::invalid(
            "rope scaling type",
            format!("`{other}`"),
            "default, linear, llama3 or yarn",
        )),
    }
}

fn number(json: &Value, key: &str) -> Result<Option<f32>> {
    match json.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_f64()
            .map(|number| Some(number as f32))
            .ok_or_else(|| ModelError::invalid(key, value, "a number")),
    }
}
