//! Text of a growing token sequence, in pieces that are whole characters.

use super::Tokenizer;
use crate::error::Result;

/// Turns tokens into text one by one.
///
/// A token may end within a character: its text is held back until the character is whole. Only
/// the tokens since the last such point are decoded anew, with one settled piece before them, so
/// that a decoder which treats a first token differently does not see one.
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    /// The last settled piece and what came after it.
    tokens: Vec<u32>,
    /// How many of `tokens` are settled, and how many bytes of text they make.
    settled: usize,
    settled_bytes: usize,
}

/// What decoders put for bytes that are not, or not yet, a character.
const REPLACEMENT: char = '\u{fffd}';
/// A character takes at most four bytes, and a token holds at least one: what has not become whole
/// in as many tokens never will.
const LONGEST_WAIT: usize = 4;

impl<'a> TextStream<'a> {
    /// A stream at the beginning of a text.
    #[must_use]
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Self {
            tokenizer,
            tokens: Vec::new(),
            settled: 0,
            settled_bytes: 0,
        }
    }

    /// Takes the next token and returns the text that has become whole, which may be empty.
    ///
    /// # Errors
    /// [`crate::ModelError::Tokenizer`] if the tokenizer's decoder fails.
    pub fn push(&mut self, token: u32) -> Result<String> {
        self.tokens.push(token);
        let text = self.tokenizer.decode(&self.tokens)?;
        let waiting = self.tokens.len() - self.settled;
        if text.ends_with(REPLACEMENT) && waiting < LONGEST_WAIT {
            return Ok(String::new());
        }
        self.settle(&text)
    }

    /// Returns what is still held back.
    ///
    /// # Errors
    /// [`crate::ModelError::Tokenizer`] if the tokenizer's decoder fails.
    pub fn finish(mut self) -> Result<String> {
        let text = self.tokenizer.decode(&self.tokens)?;
        self.settle(&text)
    }

    fn settle(&mut self, text: &str) -> Result<String> {
        let piece = text
            .get(self.settled_bytes..)
            .unwrap_or_default()
            .to_owned();
        self.tokens.drain(..self.settled);
        self.settled = self.tokens.len();
        self.settled_bytes = self.tokenizer.decode(&self.tokens)?.len();
        Ok(piece)
    }
}
