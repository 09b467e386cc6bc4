//! `mlxk kl`: what kernels, or a bit width, do to a model's output distributions.

mod gate;
mod render;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use mlx_kernels::Context;
use mlx_model::kernels::{Dense, Extension, Stock};
use mlx_model::kl::{Arm, KlOptions, Measurement, measure, windows};
use mlx_model::{Kernels, Model, Tokenizer};
use serde_json::json;

use crate::checkpoint::{ModelArgs, SchemeArg, dtype_name};
use crate::output::{out, outln};
use gate::Gates;

/// Arguments of `mlxk kl`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,

    /// Text to read; a passage of English prose that comes with the program, if not given.
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Tokens of the text to read, from its beginning.
    #[arg(long, value_name = "N", default_value_t = 512)]
    tokens: usize,

    /// Tokens of one window: each is read by itself.
    #[arg(long, value_name = "W", default_value_t = 128)]
    window: usize,

    /// Tokens of one forward pass: the rows that kernels see.
    #[arg(long, value_name = "R", default_value_t = 64)]
    rows: usize,

    /// What the candidate is held against.
    #[arg(long, value_enum, default_value_t = Baseline::Stock)]
    baseline: Baseline,

    /// The original of --model, for --baseline original: a GGUF file or folder with the same
    /// vocabulary.
    #[arg(long, value_name = "PATH", conflicts_with = "requantize")]
    reference_model: Option<PathBuf>,

    /// Leave out the runs that only show whether stock MLX or the candidate is nearer to dense.
    #[arg(long)]
    no_reference: bool,

    /// Positions to list with the largest KL.
    #[arg(long, value_name = "N", default_value_t = 5)]
    worst: usize,

    #[command(flatten)]
    gates: Gates,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a candidate is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Baseline {
    /// The same weights under MLX's own operations
    Stock,
    /// The same weights dequantized to float32, and plain products (summed in float64 on the CPU)
    Dense,
    /// The weights of --reference-model, or the file's before --requantize, dequantized to float32
    Original,
}

const PASSAGE: &str = include_str!("../../assets/passage.txt");
const DENSE: &str = "dense";
const STOCK: &str = "stock";
const ORIGINAL: &str = "original";
/// Exit status when a gate does not hold.
const GATE_FAILED: u8 = 3;

/// Measures, prints, and fails if a gate does not hold.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    ensure!(
        args.baseline != Baseline::Original
            || args.model.requantize.is_some()
            || args.reference_model.is_some(),
        "--baseline original needs --reference-model or --requantize: without them the weights are \
         the file's own"
    );
    ensure!(
        args.baseline == Baseline::Original || args.reference_model.is_none(),
        "--reference-model is for --baseline original"
    );
    let tokenizer = args.model.load_tokenizer()?;
    let tokens = args.read_tokens(&tokenizer)?;
    let windows = windows(&tokens, args.window, &tokenizer.prefix()?)?;

    let loaded = args.model.load_model(context)?;
    let requantized = match args.model.requantize {
        Some(SchemeArg(scheme)) => Some(loaded.requantize(scheme)?),
        None => None,
    };
    let reference = match &args.reference_model {
        Some(path) => {
            args.check_same_tokens(path, &tokens)?;
            let reference = args.model.load_other(path, context);
            Some(reference.context("loading the reference model")?)
        }
        None => None,
    };
    let model = requantized.as_ref().unwrap_or(&loaded);
    let original = reference.as_ref().unwrap_or(&loaded);
    let plan = ArmPlan::new(args, context);
    let (arms, pairs) = plan.arms(model, original);

    let bar = progress_bar(windows.iter().map(Vec::len).sum());
    let options = KlOptions {
        rows: args.rows,
        worst: args.worst,
        ..KlOptions::default()
    };
    let measured = measure(&arms, &pairs, &windows, &options, &mut |done| {
        bar.inc(done as u64);
    })?;
    bar.finish_and_clear();

    let gates = args.gates.judge(&measured);
    if args.json {
        let report = json!({
            "model": args.model.name(),
            "reference_model": args.reference_model,
            "dtype": dtype_name(model.dtype()),
            "window": args.window,
            "rows": args.rows,
            "measurement": measured,
            "worst_text": worst_text(&measured, &tokenizer)?,
            "gates": gates,
        });
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        let head = format!(
            "{}: {} {} layers, {} activations, {} MiB of weights",
            args.model.name(),
            model.config().layers,
            model.config().architecture.name(),
            dtype_name(model.dtype()),
            model.weight_bytes() >> 20,
        );
        outln!("{head}");
        outln!(
            "{} tokens in {} windows of up to {}, {} rows a pass\n",
            measured.tokens,
            measured.windows,
            args.window,
            args.rows
        );
        out!("{}", render::measurement(&measured, &tokenizer)?);
        for gate in &gates {
            outln!("{gate}");
        }
    }
    let held = gates.iter().all(|gate| gate.holds);
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(GATE_FAILED)
    })
}

impl Args {
    fn read_tokens(&self, tokenizer: &Tokenizer) -> anyhow::Result<Vec<u32>> {
        let text = match &self.text {
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("reading {}", path.display()))?,
            None => PASSAGE.to_owned(),
        };
        let mut tokens = tokenizer.encode_plain(&text)?;
        tokens.truncate(self.tokens);
        Ok(tokens)
    }

    /// Token ids must mean the same to both models.
    fn check_same_tokens(&self, reference: &Path, tokens: &[u32]) -> anyhow::Result<()> {
        let tokenizer =
            Tokenizer::load(reference).context("loading the tokenizer of the reference model")?;
        ensure!(
            self.read_tokens(&tokenizer)? == tokens,
            "{}: its tokenizer cuts the text into other tokens than the one of {}",
            reference.display(),
            self.model.model.display()
        );
        Ok(())
    }
}

/// The kernels of each arm.
struct ArmPlan {
    baseline: Baseline,
    reference: bool,
    dense: Dense,
    original: Dense,
    extension: Extension,
}

impl ArmPlan {
    fn new(args: &Args, context: &Context) -> Self {
        Self {
            baseline: args.baseline,
            reference: !args.no_reference,
            dense: dense(context),
            original: dense(context),
            extension: Extension::new(context.clone()),
        }
    }

    /// The arms, and which are compared: baseline and candidate first, then what shows which of
    /// stock and candidate is nearer to dense.
    fn arms<'a>(&'a self, model: &'a Model, original: &'a Model) -> Arms<'a> {
        let baseline = match self.baseline {
            Baseline::Stock => arm(STOCK, model, &Stock),
            Baseline::Dense => arm(DENSE, model, &self.dense),
            Baseline::Original => arm(ORIGINAL, original, &self.original),
        };
        let mut arms = vec![baseline, arm(self.extension.name(), model, &self.extension)];
        let candidate = 1;
        let mut pairs = vec![(0, candidate)];
        if self.reference {
            let dense = index_or_push(&mut arms, arm(DENSE, model, &self.dense));
            let stock = index_or_push(&mut arms, arm(STOCK, model, &Stock));
            pairs.push((dense, stock));
            if dense != 0 {
                pairs.push((dense, candidate));
            }
        }
        (arms, pairs)
    }
}

/// The reference for a back end: float64 sums where they would have to be on the CPU anyhow.
fn dense(context: &Context) -> Dense {
    if context.backend().is_gpu() {
        Dense::device()
    } else {
        Dense::float64()
    }
}

fn arm<'a>(name: &str, model: &'a Model, kernels: &'a dyn Kernels) -> Arm<'a> {
    Arm {
        name: name.to_owned(),
        model,
        kernels,
    }
}

/// Index of the arm of this name, which is added if there is none.
fn index_or_push<'a>(arms: &mut Vec<Arm<'a>>, arm: Arm<'a>) -> usize {
    arms.iter()
        .position(|known| known.name == arm.name)
        .unwrap_or_else(|| {
            arms.push(arm);
            arms.len() - 1
        })
}

type Arms<'a> = (Vec<Arm<'a>>, Vec<(usize, usize)>);

/// Shown where stderr is a terminal.
fn progress_bar(tokens: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} tokens  {per_sec}  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(tokens as u64).with_style(style)
}

fn worst_text(measured: &Measurement, tokenizer: &Tokenizer) -> anyhow::Result<Vec<String>> {
    let worst = measured
        .pairs
        .first()
        .map(|pair| pair.worst.as_slice())
        .unwrap_or_default();
    Ok(worst
        .iter()
        .map(|token| tokenizer.decode_all(&token.context))
        .collect::<Result<_, _>>()?)
}
