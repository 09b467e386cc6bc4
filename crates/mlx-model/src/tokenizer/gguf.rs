//! Byte-level BPE tokenizers from GGUF metadata.
//!
//! The metadata name a vocabulary, merges and a kind of pre-tokenizer. They are written out as the
//! JSON document that the `tokenizers` crate reads, which is the one stable description of it.

use serde_json::{Value as Json, json};

use crate::error::{ModelError, Result};
use crate::gguf::{Header, Value};

/// Entries of `tokenizer.ggml.token_type` that stand for tokens outside the BPE vocabulary.
const CONTROL: f64 = 3.0;
const USER_DEFINED: f64 = 4.0;

/// How Llama 3 cuts text into words.
const LLAMA3_WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The same with one digit a word: Qwen2.
const QWEN2_WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

pub(super) fn build(header: &Header) -> Result<tokenizers::Tokenizer> {
    tokenizers::Tokenizer::from_bytes(document(header)?.to_string())
        .map_err(|error| ModelError::Tokenizer(format!("{}: {error}", header.path().display())))
}

/// The contents of a `tokenizer.json`.
pub(super) fn document(header: &Header) -> Result<Json> {
    let model = header.required_text("tokenizer.ggml.model")?;
    if model != "gpt2" {
        return Err(ModelError::invalid(
            "tokenizer model",
            format!("`{model}`"),
            "gpt2 (byte-level BPE)",
        ));
    }
    let tokens = header.required_texts("tokenizer.ggml.tokens")?;
    let merges = header.required_texts("tokenizer.ggml.merges")?;
    let words = header.text("tokenizer.ggml.pre").unwrap_or("gpt-2");
    Ok(json!({
        "version": "1.0",
        "added_tokens": added_tokens(header, tokens),
        "normalizer": if words == "qwen2" { json!({"type": "NFC"}) } else { Json::Null },
        "pre_tokenizer": pre_tokenizer(words)?,
        "post_processor": null,
        "decoder": byte_level(true),
        "model": {
            "type": "BPE",
            "ignore_merges": words == "llama-bpe",
            "vocab": vocabulary(tokens),
            "merges": merges.iter().map(|merge| pair(merge)).collect::<Result<Vec<_>>>()?,
        },
    }))
}

fn vocabulary(tokens: &[String]) -> Json {
    tokens
        .iter()
        .enumerate()
        .map(|(id, token)| (token.clone(), Json::from(id)))
        .collect()
}

fn pair(merge: &str) -> Result<Json> {
    // The byte-level alphabet has no space, so the one between the halves is the only one.
    match merge.split_once(' ') {
        Some((left, right)) => Ok(json!([left, right])),
        None => Err(ModelError::invalid(
            "tokenizer merge",
            format!("`{merge}`"),
            "two tokens",
        )),
    }
}

fn added_tokens(header: &Header, tokens: &[String]) -> Vec<Json> {
    let Some(Value::Numbers(types)) = header.value("tokenizer.ggml.token_type") else {
        return Vec::new();
    };
    let is = |kind: f64, value: f64| (kind - value).abs() < 0.5;
    tokens
        .iter()
        .zip(types)
        .enumerate()
        .filter(|&(_, (_, &kind))| is(kind, CONTROL) || is(kind, USER_DEFINED))
        .map(|(id, (token, &kind))| {
            json!({
                "id": id,
                "content": token,
                "single_word": false,
                "lstrip": false,
                "rstrip": false,
                "normalized": false,
                "special": is(kind, CONTROL),
            })
        })
        .collect()
}

fn pre_tokenizer(name: &str) -> Result<Json> {
    let split = |words: &str| json!({"type": "Split", "pattern": {"Regex": words}, "behavior": "Isolated", "invert": false});
    let steps = match name {
        "gpt-2" | "default" => return Ok(byte_level(true)),
        "smollm" => [
            json!({"type": "Digits", "individual_digits": true}),
            byte_level(true),
        ],
        "llama-bpe" => [split(LLAMA3_WORDS), byte_level(false)],
        "qwen2" => [split(QWEN2_WORDS), byte_level(false)],
        other => {
            return Err(ModelError::invalid(
                "pre-tokenizer",
                format!("`{other}`"),
                "gpt-2, smollm, llama-bpe or qwen2",
            ));
        }
    };
    Ok(json!({"type": "Sequence", "pretokenizers": steps}))
}

/// Bytes as printable characters; with GPT-2's cut into words, or without.
fn byte_level(use_regex: bool) -> Json {
    json!({
        "type": "ByteLevel",
        "add_prefix_space": false,
        "trim_offsets": true,
        "use_regex": use_regex,
    })
}
