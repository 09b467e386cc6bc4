//! `mlxk quantize`: a model written anew, in trellis codes or in MLX's affine mode.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use mlx_model::Tokenizer;
use mlx_model::kl::windows;
use mlx_model::quantize::{Mode, QuantizeOptions, Summary, quantize};
use serde_json::json;
use trellis_codec::Axis;

use crate::output::{out, outln};
use crate::table::Table;

/// Arguments of `mlxk quantize`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// GGUF file, or folder with config.json and safetensors; what is quantized in it is dequantized
    /// first.
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Folder to write, which must not exist. It appears when it is complete; until then finished
    /// tensors are in OUT.partial, where the same command goes on after an interruption.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Format of the projections.
    #[arg(long, value_enum)]
    mode: ModeArg,

    /// Bits per weight: 1 to 8, in affine mode 2, 3, 4, 5, 6 or 8.
    #[arg(long, value_name = "B")]
    bits: u32,

    /// Other bits for layers whose path matches, such as `*.down_proj=4`; `*` stands for any
    /// text, and the last match counts.
    #[arg(long, value_name = "PATTERN=B", value_parser = bits_for)]
    bits_for: Vec<(String, u32)>,

    /// Weights that share a scale in affine mode: 32, 64 (if not given) or 128.
    #[arg(long, value_name = "G")]
    group_size: Option<i32>,

    /// Dimension that trellis codes of down projections run along (out, if not given).
    #[arg(long, value_enum)]
    down_axis: Option<DownAxis>,

    /// Interleave trellis codes along the outputs by pairs of blocks.
    #[arg(long)]
    interleave: bool,

    /// Text for error feedback: the model reads it, and what one weight's rounding does to its
    /// layer's output is made up for by the weights rounded after it.
    #[arg(long, value_name = "FILE")]
    calibrate: Option<PathBuf>,

    /// Tokens of the text to read, from its beginning, in windows of 128.
    #[arg(long, value_name = "N", default_value_t = 8192, requires = "calibrate")]
    calibration_tokens: usize,

    /// Code the blocks in a basis of the residual stream in which no channel stands out, drawn from
    /// this seed.
    #[arg(long, value_name = "SEED")]
    rotate: Option<u64>,

    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// Tokens of one window of calibration text.
const CALIBRATION_WINDOW: usize = 128;

/// Formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// Trellis codes of 12 state bits: one scale for each coded row
    Trellis,
    /// MLX's affine mode: a scale and a bias for each group
    Affine,
}

/// Axes of down projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DownAxis {
    /// Inputs (axis 1)
    In,
    /// Outputs (axis 0)
    Out,
}

fn bits_for(text: &str) -> Result<(String, u32), String> {
    let parsed = text.rsplit_once('=').and_then(|(pattern, bits)| {
        let bits = bits.parse().ok()?;
        (!pattern.is_empty()).then(|| (pattern.to_owned(), bits))
    });
    parsed.ok_or_else(|| format!("{text:?} is not PATTERN=BITS, such as '*.down_proj=4'"))
}

impl Args {
    fn calibration(&self) -> anyhow::Result<Option<Vec<Vec<u32>>>> {
        let Some(path) = &self.calibrate else {
            return Ok(None);
        };
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let tokenizer = Tokenizer::load(&self.input).context("loading the tokenizer")?;
        let mut tokens = tokenizer.encode_plain(&text)?;
        tokens.truncate(self.calibration_tokens);
        Ok(Some(windows(
            &tokens,
            CALIBRATION_WINDOW,
            &tokenizer.prefix()?,
        )?))
    }

    fn options(&self) -> anyhow::Result<QuantizeOptions> {
        let mode = match self.mode {
            ModeArg::Trellis => {
                ensure!(
                    self.group_size.is_none(),
                    "--group-size is for --mode affine: trellis blocks follow from the shapes"
                );
                let down_axis = match self.down_axis {
                    Some(DownAxis::In) => Axis::Input,
                    Some(DownAxis::Out) | None => Axis::Output,
                };
                ensure!(
                    !self.interleave || down_axis == Axis::Output,
                    "--interleave needs --down-axis out: only codes along outputs have pairs"
                );
                Mode::Trellis {
                    down_axis,
                    interleave: self.interleave,
                    rotation: self.rotate,
                    calibration: self.calibration()?,
                }
            }
            ModeArg::Affine => {
                ensure!(
                    self.down_axis.is_none() && !self.interleave,
                    "--down-axis and --interleave are for --mode trellis"
                );
                ensure!(
                    self.calibrate.is_none() && self.rotate.is_none(),
                    "--calibrate and --rotate are for --mode trellis"
                );
                Mode::Affine {
                    group_size: self.group_size.unwrap_or(64),
                }
            }
        };
        Ok(QuantizeOptions {
            mode,
            bits: self.bits,
            bits_for: self.bits_for.clone(),
        })
    }
}

/// Quantizes, and prints what became of it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = args.options()?;
    let bar = progress_bar();
    let mut resumed = 0;
    let summary = quantize(&args.input, &args.output, &options, &mut |step| {
        bar.set_length(step.total as u64);
        if step.resumed {
            // Left out of the rate, from which the remaining time follows.
            resumed += step.weights as u64;
            bar.set_position(resumed);
            bar.reset_eta();
        } else {
            bar.inc(step.weights as u64);
            bar.set_message(step.path.to_owned());
        }
    })
    .with_context(|| format!("quantizing {}", args.input.display()))?;
    bar.finish_and_clear();
    if args.json {
        let report = json!({"output": args.output, "summary": summary});
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        out!("{}", render(&summary));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shown where stderr is a terminal.
fn progress_bar() -> ProgressBar {
    let template = "{bar:30} {human_pos}/{human_len} weights  {per_sec}  {eta} left  {msg}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

fn render(summary: &Summary) -> String {
    let mut table = Table::new([
        "kind",
        "format",
        "layers",
        "weights",
        "bits/weight",
        "relative error",
    ]);
    for kind in &summary.kinds {
        table.push([
            kind.kind.clone(),
            kind.format.clone(),
            kind.layers.to_string(),
            kind.weights.to_string(),
            format!("{:.3}", kind.bits_per_weight),
            kind.relative_error
                .map_or("-".to_owned(), |error| format!("{error:.5}")),
        ]);
    }
    let mut notes = vec![format!(
        "{} weights of projections at {:.3} bits; {:.1} MB of tensors in all",
        summary.projection_weights,
        summary.projection_bits_per_weight,
        summary.bytes as f64 / 1e6,
    )];
    if summary.resumed > 0 {
        let (resumed, matrices) = (summary.resumed, summary.matrices);
        notes.push(format!(
            "{resumed} of {matrices} matrices were done by an earlier run"
        ));
    }
    if !summary.tripped.is_empty() {
        notes.push(format!(
            "coded without error feedback, which grew past its limit: {}",
            summary.tripped.join(", ")
        ));
    }
    if let Some(block) = summary.shortest_block.filter(|&block| block < 256) {
        notes.push(format!(
            "blocks are of {block} weights where 256 do not divide the coded dimension, at a \
             slightly larger error"
        ));
    }
    format!("{}\n{}\n", table.render(), notes.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_parse() {
        assert_eq!(bits_for("*.up_proj=3"), Ok(("*.up_proj".into(), 3)));
        assert_eq!(bits_for("a=b=2"), Ok(("a=b".into(), 2)));
        for wrong in ["=3", "x", "x=", "x=two", "x=-1"] {
            assert!(bits_for(wrong).unwrap_err().contains(wrong));
        }
    }
}
