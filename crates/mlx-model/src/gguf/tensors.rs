//! Tensors of a GGUF file, under Hugging Face's names.

use std::collections::HashMap;

use mlx_rs::Array;
use mlx_rs::io::{GgufError, GgufFile};

use super::Header;
use crate::error::{ModelError, Result};

/// Loads every tensor of a checked file through MLX.
///
/// MLX makes three arrays of a quantized tensor: packed weights, scales and biases, for groups of
/// 32 along each row.
pub(crate) fn load_tensors(header: &Header) -> Result<HashMap<String, Array>> {
    let loading = |error: GgufError| match error {
        GgufError::Exception(exception) => ModelError::Mlx(exception),
        other => ModelError::Malformed {
            path: header.path().into(),
            format: "GGUF",
            what: "file".into(),
            found: other.to_string(),
            expected: "a file that MLX loads".into(),
        },
    };
    let file = GgufFile::load(header.path()).map_err(loading)?;
    let arrays = file.arrays().map_err(loading)?;
    Ok(arrays
        .into_iter()
        .map(|(name, array)| (hf_name(&name), array))
        .collect())
}

/// Hugging Face's name of a GGUF tensor; a name that has none stays as it is.
fn hf_name(name: &str) -> String {
    let Some((stem, part)) = name.rsplit_once('.') else {
        return name.to_owned();
    };
    match stem {
        "token_embd" => return format!("model.embed_tokens.{part}"),
        "output_norm" => return format!("model.norm.{part}"),
        "output" => return format!("lm_head.{part}"),
        _ => {}
    }
    let block = stem
        .strip_prefix("blk.")
        .and_then(|rest| rest.split_once('.'));
    match block.and_then(|(layer, module)| Some((layer, hf_module(module)?))) {
        Some((layer, module)) => format!("model.layers.{layer}.{module}.{part}"),
        None => name.to_owned(),
    }
}

fn hf_module(module: &str) -> Option<&'static str> {
    Some(match module {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    })
}
