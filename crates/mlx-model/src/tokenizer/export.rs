//! The files that a folder needs beside its weights, from either kind of model.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::gguf;
use crate::error::{ModelError, Result};
use crate::gguf::Header;

/// What a folder may hold of a tokenizer and of generation.
const FILES: [&str; 10] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
];

/// Names and contents: a folder's own files, or what a GGUF header describes.
///
/// # Errors
/// Files that cannot be read, and tokenizers of a kind that this crate does not build.
pub(crate) fn files(path: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    if !path.is_dir() {
        return of_gguf(&Header::read(path)?);
    }
    FILES
        .into_iter()
        .filter(|name| path.join(name).is_file())
        .map(|name| {
            let path = path.join(name);
            let bytes = fs::read(&path).map_err(|source| ModelError::Io { path, source })?;
            Ok((name.to_owned(), bytes))
        })
        .collect()
}

fn of_gguf(header: &Header) -> Result<Vec<(String, Vec<u8>)>> {
    // A file of weights alone has no tokenizer to pass on.
    if header.text("tokenizer.ggml.model").is_none() {
        return Ok(Vec::new());
    }
    let tokens = header.required_texts("tokenizer.ggml.tokens")?;
    let token = |key: &str| {
        let id = header.integer(&format!("tokenizer.ggml.{key}"))?;
        let id = usize::try_from(id).ok()?;
        Some((id, tokens.get(id)?.as_str()))
    };
    let (bos, eos) = (token("bos_token_id"), token("eos_token_id"));
    let mut document = gguf::document(header)?;
    let add_bos =
        header.value("tokenizer.ggml.add_bos_token") == Some(&crate::gguf::Value::Bool(true));
    if let Some((id, text)) = bos.filter(|_| add_bos) {
        document["post_processor"] = put_before(id, text);
    }
    let mut config = json!({"tokenizer_class": "PreTrainedTokenizerFast"});
    for (key, token) in [
        ("bos_token", bos),
        ("eos_token", eos),
        ("pad_token", token("padding_token_id")),
        ("unk_token", token("unknown_token_id")),
    ] {
        if let Some((_, text)) = token {
            config[key] = json!(text);
        }
    }
    if let Some(template) = header.text("tokenizer.chat_template") {
        config["chat_template"] = json!(template);
    }
    let stops: Vec<usize> = eos
        .into_iter()
        .chain(token("eot_token_id"))
        .map(|(id, _)| id)
        .collect();
    let mut generation = json!({"eos_token_id": stops});
    if let Some((id, _)) = bos {
        generation["bos_token_id"] = json!(id);
    }
    Ok([
        ("tokenizer.json", document),
        ("tokenizer_config.json", config),
        ("generation_config.json", generation),
    ]
    .map(|(name, json)| (name.to_owned(), format!("{json:#}\n").into_bytes()))
    .into())
}

/// The post-processor that puts one token before every text.
fn put_before(id: usize, text: &str) -> Value {
    let special = json!({"SpecialToken": {"id": text, "type_id": 0}});
    let first = json!({"Sequence": {"id": "A", "type_id": 0}});
    let second = json!({"Sequence": {"id": "B", "type_id": 1}});
    json!({
        "type": "TemplateProcessing",
        "single": [special, first],
        "pair": [special, first, second],
        "special_tokens": {text: {"id": text, "ids": [id], "tokens": [text]}},
    })
}
