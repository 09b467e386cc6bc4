//! A measurement for people.

use std::fmt::Write as _;

use mlx_model::kl::{Measurement, PairReport, TopToken};
use mlx_model::{Result, Tokenizer};

use super::gate::to_dense;
use crate::table::Table;

/// Arms, divergences, the worst positions and the kernels used.
pub fn measurement(measured: &Measurement, tokenizer: &Tokenizer) -> Result<String> {
    let mut text = arms(measured);
    text += &divergences(&measured.pairs);
    text += &verdict(&measured.pairs);
    if let Some(main) = measured.pairs.first() {
        text += &worst(main, tokenizer)?;
        text += &kernels(measured, &main.candidate);
    }
    Ok(text)
}

fn arms(measured: &Measurement) -> String {
    let mut table = Table::new(["arm", "perplexity", "seconds", "tokens/s"]);
    for arm in &measured.arms {
        table.push([
            arm.name.clone(),
            format!("{:.5}", arm.perplexity),
            format!("{:.1}", arm.seconds),
            format!("{:.1}", measured.tokens as f64 / arm.seconds),
        ]);
    }
    table.render() + "\n"
}

fn divergences(pairs: &[PairReport]) -> String {
    let mut table = Table::new([
        "KL in nats",
        "mean",
        "+- s.e.",
        "median",
        "p99",
        "max",
        "reverse",
        "window means",
        "same top-1",
    ]);
    for pair in pairs {
        let spread = pair.window_means;
        table.push([
            format!("{} -> {}", pair.baseline, pair.candidate),
            format!("{:.3e}", pair.kl.mean),
            format!("{:.1e}", pair.kl.standard_error),
            format!("{:.3e}", pair.kl.median),
            format!("{:.3e}", pair.kl.p99),
            format!("{:.3e}", pair.kl.max),
            format!("{:.3e}", pair.reverse_kl.mean),
            format!("{:.1e} to {:.1e}", spread.min, spread.max),
            format!("{:.2}%", 100.0 * pair.top1_agreement),
        ]);
    }
    table.render() + "\n"
}

/// Which of stock and candidate is nearer to dense.
fn verdict(pairs: &[PairReport]) -> String {
    let Some(main) = pairs.first() else {
        return String::new();
    };
    let (stock, candidate) = to_dense(pairs, &main.candidate);
    if stock.is_nan() || candidate.is_nan() {
        return String::new();
    }
    let name = &main.candidate;
    let relation = match candidate.total_cmp(&stock) {
        std::cmp::Ordering::Less => "nearer to dense than stock MLX",
        std::cmp::Ordering::Equal => "as near to dense as stock MLX",
        std::cmp::Ordering::Greater => "farther from dense than stock MLX",
    };
    format!("{name} is {relation}: mean KL {candidate:.3e} against {stock:.3e}\n\n")
}

fn worst(pair: &PairReport, tokenizer: &Tokenizer) -> Result<String> {
    if pair.worst.is_empty() {
        return Ok(String::new());
    }
    let mut text = format!("largest KL of {} -> {}\n", pair.baseline, pair.candidate);
    for position in &pair.worst {
        let context = tokenizer.decode_all(&position.context)?;
        let quoted = |top: TopToken| {
            tokenizer
                .decode_all(&[top.token])
                .map(|token| format!("{token:?} {:.3}", top.probability))
        };
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "  {:.3e}  window {} at {}: {context:?}  {} | {}",
            position.kl,
            position.window,
            position.position,
            quoted(position.baseline_top)?,
            quoted(position.candidate_top)?,
        );
    }
    Ok(text + "\n")
}

fn kernels(measured: &Measurement, arm: &str) -> String {
    let Some(arm) = measured.arms.iter().find(|report| report.name == arm) else {
        return String::new();
    };
    let mut table = Table::new(["layer", "weights", "rows", "layers", "kernel"]);
    for line in &arm.kernels {
        table.push([
            line.layer.name().to_owned(),
            line.weights.clone(),
            line.rows.to_string(),
            line.layers.to_string(),
            line.kernel.clone(),
        ]);
    }
    format!("kernels of {}\n{}\n", arm.name, table.render())
}
