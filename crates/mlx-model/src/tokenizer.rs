//! Text to tokens and back, and chat templates.

mod chat;
mod export;
mod gguf;
mod stream;

pub use chat::{ChatTemplate, Message, Role};
pub(crate) use export::files;
pub use stream::TextStream;

use std::path::Path;

use serde_json::Value;

use crate::error::{ModelError, Result};
use crate::gguf::Header;
use crate::hf::{read_json, read_json_if_present};

/// A model's tokenizer, with the special tokens that matter for generation.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Put before every plain prompt, where the file asks for it and the tokenizer itself does not.
    prefix: Option<u32>,
    stop_tokens: Vec<u32>,
    chat_template: Option<ChatTemplate>,
}

/// Tokens that end a turn or a text in the model families covered here. They are stop tokens
/// wherever a vocabulary has them as special tokens: files often name only one of them.
const END_OF_TURN: [&str; 4] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end_of_text|>",
];

impl Tokenizer {
    /// Loads the tokenizer of a GGUF file, or of a folder with `tokenizer.json`.
    ///
    /// # Errors
    /// Missing files or metadata, and tokenizers of a kind that this crate does not build.
    pub fn load(path: &Path) -> Result<Self> {
        if path.is_dir() {
            Self::from_folder(path)
        } else {
            Self::from_gguf(&Header::read(path)?)
        }
    }

    /// Builds the tokenizer that a GGUF header describes: byte-level BPE (`gpt2`) only.
    ///
    /// # Errors
    /// Missing metadata, or another kind of tokenizer.
    pub fn from_gguf(header: &Header) -> Result<Self> {
        let inner = gguf::build(header)?;
        let token = |key: &str| {
            header
                .integer(&format!("tokenizer.ggml.{key}"))
                .and_then(|id| u32::try_from(id).ok())
        };
        let (bos, eos) = (token("bos_token_id"), token("eos_token_id"));
        let add_bos =
            header.value("tokenizer.ggml.add_bos_token") == Some(&crate::gguf::Value::Bool(true));
        let text_of = |id: Option<u32>| id.and_then(|id| inner.id_to_token(id));
        let chat_template = header
            .text("tokenizer.chat_template")
            .map(|source| ChatTemplate::new(source, text_of(bos), text_of(eos)))
            .transpose()?;
        let stop_tokens = eos.into_iter().chain(token("eot_token_id")).collect();
        Ok(Self::new(
            inner,
            bos.filter(|_| add_bos),
            stop_tokens,
            chat_template,
        ))
    }

    fn from_folder(path: &Path) -> Result<Self> {
        let file = path.join("tokenizer.json");
        if !file.is_file() {
            return Err(ModelError::Missing {
                path: file,
                expected: "tokenizer",
            });
        }
        let inner = tokenizers::Tokenizer::from_file(&file)
            .map_err(|error| ModelError::Tokenizer(format!("{}: {error}", file.display())))?;
        let config = read_json_if_present(&path.join("tokenizer_config.json"))?;
        let special = |key: &str| special_token(&config, key);
        let template = match chat_template_source(path, &config)? {
            None => None,
            Some(source) => Some(ChatTemplate::new(
                &source,
                special("bos_token"),
                special("eos_token"),
            )?),
        };
        let stop_tokens = special("eos_token")
            .and_then(|token| inner.token_to_id(&token))
            .into_iter()
            .collect();
        Ok(Self::new(inner, None, stop_tokens, template))
    }

    fn new(
        inner: tokenizers::Tokenizer,
        prefix: Option<u32>,
        mut stop_tokens: Vec<u32>,
        chat_template: Option<ChatTemplate>,
    ) -> Self {
        let special = inner.get_added_tokens_decoder();
        let known = END_OF_TURN
            .iter()
            .filter_map(|token| inner.token_to_id(token));
        stop_tokens.extend(known.filter(|id| special.contains_key(id)));
        stop_tokens.sort_unstable();
        stop_tokens.dedup();
        Self {
            inner,
            prefix,
            stop_tokens,
            chat_template,
        }
    }

    /// Tokens of a plain prompt, with the begin-of-text token where the model wants one.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the text cannot be encoded.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens: Vec<u32> = self.prefix.into_iter().collect();
        tokens.extend(self.encode_with(text, true)?);
        Ok(tokens)
    }

    /// Tokens of a piece of text by itself, without a begin-of-text token.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the text cannot be encoded.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_with(text, false)
    }

    /// Tokens that [`Self::encode`] puts before a text.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the tokenizer fails.
    pub fn prefix(&self) -> Result<Vec<u32>> {
        self.encode("")
    }

    /// Tokens of a conversation, up to where the assistant's answer begins.
    ///
    /// # Errors
    /// No chat template, or one that refuses the messages.
    pub fn encode_chat(&self, messages: &[Message]) -> Result<Vec<u32>> {
        let template = self
            .chat_template
            .as_ref()
            .ok_or(ModelError::NoChatTemplate)?;
        // A template writes the begin-of-text token itself.
        self.encode_with(&template.render(messages)?, false)
    }

    fn encode_with(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        let encoding = self
            .inner
            .encode_fast(text, add_special)
            .map_err(|error| ModelError::Tokenizer(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Text of `tokens`, special tokens left out.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the tokenizer's decoder fails.
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        self.inner
            .decode(tokens, true)
            .map_err(|error| ModelError::Tokenizer(error.to_string()))
    }

    /// Text of `tokens`, special tokens spelled out.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the tokenizer's decoder fails.
    pub fn decode_all(&self, tokens: &[u32]) -> Result<String> {
        self.inner
            .decode(tokens, false)
            .map_err(|error| ModelError::Tokenizer(error.to_string()))
    }

    /// Tokens that end a text by the tokenizer's files; sorted, without repeats.
    #[must_use]
    pub fn stop_tokens(&self) -> &[u32] {
        &self.stop_tokens
    }

    /// The chat template, if the model has one.
    #[must_use]
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.chat_template.as_ref()
    }

    /// Number of tokens, added ones included.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.inner.get_vocab_size(true)
    }
}

/// A special token of `tokenizer_config.json`: text, or an object that holds it as `content`.
fn special_token(config: &Value, key: &str) -> Option<String> {
    let token = config.get(key)?;
    token
        .as_str()
        .or_else(|| token.get("content")?.as_str())
        .map(str::to_owned)
}

/// `chat_template.jinja`, else `chat_template` of `tokenizer_config.json`: a text, or named texts
/// of which `default` counts.
fn chat_template_source(path: &Path, config: &Value) -> Result<Option<String>> {
    let file = path.join("chat_template.jinja");
    if file.is_file() {
        return std::fs::read_to_string(&file)
            .map(Some)
            .map_err(|source| ModelError::Io { path: file, source });
    }
    let json_file = path.join("chat_template.json");
    let json = if json_file.is_file() {
        read_json(&json_file, "chat template")?
    } else {
        Value::Null
    };
    let template = json
        .get("chat_template")
        .or_else(|| config.get("chat_template"));
    Ok(match template {
        Some(Value::String(source)) => Some(source.clone()),
        Some(Value::Array(named)) => named
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"))
            .and_then(|entry| entry.get("template"))
            .and_then(Value::as_str)
            .map(str::to_owned),
        _ => None,
    })
}
