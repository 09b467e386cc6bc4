//! A configuration as `config.json` writes it.

use serde_json::{Value, json};

use super::{Architecture, ModelConfig, RopeScaling};
use crate::error::{ModelError, Result};

impl ModelConfig {
    /// The keys of a Hugging Face `config.json` that describe this model, quantization left out.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for rotary factors given one by one, for which there is no key, and
    /// for a bias on the attention's output alone.
    pub fn to_hf_json(&self) -> Result<Value> {
        let biased = self.architecture == Architecture::Qwen2;
        if !biased && self.output_bias != self.qkv_bias {
            return Err(ModelError::invalid(
                "bias of the attention's output",
                self.output_bias,
                format!("{}, as on q, k and v", self.qkv_bias),
            ));
        }
        let mut json = json!({
            "model_type": self.architecture.name(),
            "architectures": [match self.architecture {
                Architecture::Llama => "LlamaForCausalLM",
                Architecture::Qwen2 => "Qwen2ForCausalLM",
                Architecture::Qwen3 => "Qwen3ForCausalLM",
            }],
            "hidden_act": "silu",
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.layers,
            "intermediate_size": self.intermediate_size,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocabulary,
            "rms_norm_eps": self.norm_eps,
            "max_position_embeddings": self.context_length,
            "tie_word_embeddings": self.tied_head.unwrap_or(false),
            "attention_bias": if biased { self.output_bias } else { self.qkv_bias },
            "mlp_bias": self.mlp_bias,
            "rope_theta": self.rope.base,
            "rope_traditional": self.rope.traditional,
            "eos_token_id": self.eos_tokens,
        });
        if self.rope.dimensions != self.head_dim {
            let fraction = self.rope.dimensions as f32 / self.head_dim as f32;
            json["partial_rotary_factor"] = json!(fraction);
        }
        if let Some(scaling) = scaling(&self.rope.scaling)? {
            json["rope_scaling"] = scaling;
        }
        Ok(json)
    }
}

fn scaling(scaling: &RopeScaling) -> Result<Option<Value>> {
    Ok(Some(match scaling {
        RopeScaling::None => return Ok(None),
        RopeScaling::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
        RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_context,
        } => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low_freq_factor,
            "high_freq_factor": high_freq_factor,
            "original_max_position_embeddings": original_context,
        }),
        RopeScaling::Yarn {
            factor,
            beta_fast,
            beta_slow,
            original_context,
            attention_factor,
        } => json!({
            "rope_type": "yarn",
            "factor": factor,
            "beta_fast": beta_fast,
            "beta_slow": beta_slow,
            "original_max_position_embeddings": original_context,
            "attention_factor": attention_factor,
        }),
        RopeScaling::Factors(factors) => {
            return Err(ModelError::invalid(
                "rope scaling",
                format!("{} factors given one by one", factors.len()),
                "a kind that config.json has: linear, llama3 or yarn",
            ));
        }
    }))
}
