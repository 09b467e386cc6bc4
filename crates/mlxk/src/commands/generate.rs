//! `mlxk generate`: text from a prompt.

use std::io::Write;
use std::process::ExitCode;

use mlx_kernels::Context;
use mlx_model::generate::{GenerateOptions, Generator, SamplerOptions};
use mlx_model::kernels::{Extension, Stock};
use mlx_model::{Kernels, Message, Pass, TextStream, Tokenizer};
use serde_json::json;

use crate::checkpoint::{ModelArgs, SchemeArg};

/// Arguments of `mlxk generate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,

    /// Text to go on from, or with --chat what the user says.
    #[arg(long)]
    prompt: String,

    /// Put the prompt into the model's chat template.
    #[arg(long)]
    chat: bool,

    /// Tokens to generate at most.
    #[arg(long, value_name = "N", default_value_t = 128)]
    max_tokens: usize,

    /// Temperature; 0 takes the likeliest token always.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temp: f32,

    /// Draw from the likeliest tokens that together reach this probability.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f32,

    /// Draw from this many of the likeliest tokens; 0 for all.
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: usize,

    /// Draw from tokens of at least this share of the likeliest one's probability.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_p: f32,

    /// Start of the random sequence.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Use MLX's own operations in place of this project's.
    #[arg(long)]
    baseline: bool,

    /// Print the text and its timings as JSON when done.
    #[arg(long)]
    json: bool,
}

/// Generates, and prints the text as it grows.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let tokenizer = args.model.load_tokenizer()?;
    let prompt = if args.chat {
        tokenizer.encode_chat(&[Message::user(&args.prompt)])?
    } else {
        tokenizer.encode(&args.prompt)?
    };
    let mut model = args.model.load_model(context)?;
    if let Some(SchemeArg(scheme)) = args.model.requantize {
        model = model.requantize(scheme)?;
    }
    let extension = Extension::new(context.clone());
    let kernels: &dyn Kernels = if args.baseline { &Stock } else { &extension };
    let mut generator = Generator::new(
        &model,
        Pass::new(kernels),
        &prompt,
        args.options(&tokenizer),
    )?;

    let mut stream = TextStream::new(&tokenizer);
    let mut out = std::io::stdout().lock();
    let mut text = String::new();
    let mut emit = |piece: &str| -> std::io::Result<()> {
        text.push_str(piece);
        if args.json {
            return Ok(());
        }
        out.write_all(piece.as_bytes())?;
        out.flush()
    };
    for token in generator.by_ref() {
        emit(&stream.push(token?)?)?;
    }
    emit(&stream.finish()?)?;

    let timings = generator.timings();
    if args.json {
        let report = json!({
            "model": args.model.name(),
            "kernels": kernels.name(),
            "text": text,
            "finish": generator.finish(),
            "timings": timings,
            "prefill_tokens_per_second": timings.prefill_rate(),
            "decode_tokens_per_second": timings.decode_rate(),
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        writeln!(out)?;
        eprintln!(
            "{} kernels: prefill {} tokens, {:.1} tokens/s; decode {} tokens, {:.1} tokens/s",
            kernels.name(),
            timings.prompt_tokens,
            timings.prefill_rate(),
            timings.generated_tokens,
            timings.decode_rate(),
        );
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn options(&self, tokenizer: &Tokenizer) -> GenerateOptions {
        GenerateOptions {
            max_tokens: self.max_tokens,
            sampler: SamplerOptions {
                temperature: self.temp,
                top_k: self.top_k,
                top_p: self.top_p,
                min_p: self.min_p,
                seed: self.seed,
            },
            stop_tokens: tokenizer.stop_tokens().to_vec(),
            ..GenerateOptions::default()
        }
    }
}
