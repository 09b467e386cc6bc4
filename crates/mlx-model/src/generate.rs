//! Generating text token by token.

mod sampler;

pub use sampler::{Sampler, SamplerOptions};

use std::time::Instant;

use mlx_rs::transforms::async_eval;
use mlx_rs::{Array, Dtype};

use crate::cache::KvCache;
use crate::error::{ModelError, Result};
use crate::layers::Pass;
use crate::model::Model;

/// How text is generated.
#[derive(Debug, Clone)]
pub struct GenerateOptions {
    /// Tokens to generate at most.
    pub max_tokens: usize,
    /// How tokens are picked.
    pub sampler: SamplerOptions,
    /// Tokens that end the text, besides those of the model's configuration.
    pub stop_tokens: Vec<u32>,
    /// Prompt tokens in one forward pass.
    pub prefill_chunk: usize,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            max_tokens: 128,
            sampler: SamplerOptions::default(),
            stop_tokens: Vec::new(),
            prefill_chunk: 512,
        }
    }
}

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model picked a stop token.
    Stop,
    /// As many tokens as were asked for.
    Length,
    /// The model's context is full.
    Context,
}

/// Tokens and time of a generation.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Timings {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Seconds until the first token could be picked.
    pub prefill_seconds: f64,
    /// Tokens generated.
    pub generated_tokens: usize,
    /// Seconds from there on.
    pub decode_seconds: f64,
}

impl Timings {
    /// Prompt tokens per second.
    #[must_use]
    pub fn prefill_rate(&self) -> f64 {
        self.prompt_tokens as f64 / self.prefill_seconds
    }

    /// Generated tokens per second.
    #[must_use]
    pub fn decode_rate(&self) -> f64 {
        self.generated_tokens as f64 / self.decode_seconds
    }
}

/// An iterator over generated tokens. The stop token is not among them.
pub struct Generator<'a> {
    model: &'a Model,
    pass: Pass<'a>,
    cache: KvCache,
    sampler: Sampler,
    stop_tokens: Vec<u32>,
    max_tokens: usize,
    /// Logits for the next token, `[1, vocabulary]`, perhaps still being computed.
    logits: Array,
    finish: Option<Finish>,
    timings: Timings,
}

impl<'a> Generator<'a> {
    /// Runs the prompt.
    ///
    /// # Errors
    /// An empty prompt or one beyond the context length, unusable options; any error of the
    /// kernels or of MLX.
    pub fn new(
        model: &'a Model,
        pass: Pass<'a>,
        prompt: &[u32],
        options: GenerateOptions,
    ) -> Result<Self> {
        let sampler = Sampler::new(options.sampler)?;
        let mut cache = model.new_cache();
        let begin = Instant::now();
        let logits = model.prefill(prompt, &mut cache, pass, options.prefill_chunk)?;
        logits.eval()?;
        check_finite(&logits)?;
        let mut stop_tokens = options.stop_tokens;
        stop_tokens.extend(&model.config().eos_tokens);
        Ok(Self {
            model,
            pass,
            cache,
            sampler,
            stop_tokens,
            max_tokens: options.max_tokens,
            logits,
            finish: None,
            timings: Timings {
                prompt_tokens: prompt.len(),
                prefill_seconds: begin.elapsed().as_secs_f64(),
                ..Timings::default()
            },
        })
    }

    /// Why generation ended, once it has.
    #[must_use]
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Tokens and time so far.
    #[must_use]
    pub fn timings(&self) -> Timings {
        self.timings
    }

    fn step(&mut self) -> Result<Option<u32>> {
        if self.finish.is_none() && self.timings.generated_tokens >= self.max_tokens {
            self.finish = Some(Finish::Length);
        }
        if self.finish.is_some() {
            return Ok(None);
        }
        let token = self.pick()?;
        if self.stop_tokens.contains(&token) {
            self.finish = Some(Finish::Stop);
            return Ok(None);
        }
        self.timings.generated_tokens += 1;
        if self.timings.generated_tokens < self.max_tokens {
            match self.model.forward(&[token], &mut self.cache, self.pass) {
                Ok(logits) => self.logits = logits,
                Err(ModelError::ContextLength { .. }) => self.finish = Some(Finish::Context),
                Err(error) => return Err(error),
            }
            // The device works while the caller handles the token.
            async_eval([&self.logits])?;
        }
        Ok(Some(token))
    }

    fn pick(&mut self) -> Result<u32> {
        let unreadable =
            |error: &dyn std::fmt::Display| ModelError::invalid("logits", error, "readable values");
        if self.sampler.is_greedy() {
            let token = self.pass.kernels.greedy_token(&self.logits)?;
            return token
                .try_item_exact::<u32>()
                .map_err(|error| unreadable(&error));
        }
        let logits = self.logits.as_dtype(Dtype::Float32)?;
        let logits = logits
            .to_vec_exact::<f32>()
            .map_err(|error| unreadable(&error))?;
        Ok(self.sampler.sample(&logits))
    }
}

/// Refuses logits that make no distribution, as damaged weights give from the first token on.
fn check_finite(logits: &Array) -> Result<()> {
    let normalizer = logits.as_dtype(Dtype::Float32)?.logsumexp_axis(-1, false)?;
    let normalizer = normalizer
        .to_vec_exact::<f32>()
        .map_err(|error| ModelError::invalid("logits", error, "readable values"))?;
    match normalizer.iter().find(|value| !value.is_finite()) {
        Some(value) => Err(ModelError::invalid(
            "logarithm of the sum of the logits' exponentials",
            value,
            "finite: the weights may be damaged, or the activations overflow their type",
        )),
        None => Ok(()),
    }
}

impl Iterator for Generator<'_> {
    type Item = Result<u32>;

    fn next(&mut self) -> Option<Self::Item> {
        let begin = Instant::now();
        let token = self.step();
        self.timings.decode_seconds += begin.elapsed().as_secs_f64();
        token.transpose()
    }
}
