//! Running several arms over the same tokens.

use std::time::Instant;

use mlx_rs::Dtype;
use rayon::prelude::*;

use super::divergence::{Divergence, LogSoftmax};
use super::report::{ArmReport, Measurement, PairReport, TopToken, WindowSpread, WorstToken};
use super::statistics::{Summary, deviation, mean};
use crate::cache::KvCache;
use crate::error::{ModelError, Result};
use crate::kernels::Kernels;
use crate::layers::Pass;
use crate::model::Model;
use crate::usage::Usage;

/// A model under a set of kernels.
pub struct Arm<'a> {
    /// Name in the report.
    pub name: String,
    /// The model; all arms share one vocabulary.
    pub model: &'a Model,
    /// What it runs under.
    pub kernels: &'a dyn Kernels,
}

/// How a measurement is made.
#[derive(Debug, Clone, Copy)]
pub struct KlOptions {
    /// Tokens in one forward pass, which is also the number of rows that kernels see. Logits of as
    /// many tokens, times the number of arms, are in memory at once.
    pub rows: usize,
    /// How many of the worst positions to report.
    pub worst: usize,
    /// Tokens of context to report with each of them.
    pub context: usize,
}

impl Default for KlOptions {
    fn default() -> Self {
        Self {
            rows: 64,
            worst: 5,
            context: 12,
        }
    }
}

/// Cuts a text into windows of `length` tokens (the last one may be shorter), each read by itself.
/// `prefix` is put before each: the begin-of-text token, where a model needs one.
///
/// # Errors
/// [`ModelError::EmptyPrompt`] without tokens; a `length` of 0.
pub fn windows(tokens: &[u32], length: usize, prefix: &[u32]) -> Result<Vec<Vec<u32>>> {
    if tokens.is_empty() {
        return Err(ModelError::EmptyPrompt);
    }
    if length == 0 {
        return Err(ModelError::invalid("window length", 0, "at least 1"));
    }
    Ok(tokens
        .chunks(length)
        .map(|window| prefix.iter().chain(window).copied().collect())
        .collect())
}

/// Runs every window through every arm and compares `pairs` of arms: (baseline, candidate) by
/// index. `progress` hears of each batch of tokens that is done.
///
/// # Errors
/// No windows, a pair that names no arm, arms of different vocabularies, windows longer than a
/// model's context; any error of the kernels or of MLX.
pub fn measure(
    arms: &[Arm<'_>],
    pairs: &[(usize, usize)],
    windows: &[Vec<u32>],
    options: &KlOptions,
    progress: &mut dyn FnMut(usize),
) -> Result<Measurement> {
    check(arms, pairs, windows, options)?;
    let mut runs: Vec<ArmRun<'_>> = arms.iter().map(ArmRun::new).collect();
    let mut tallies: Vec<PairTally> = pairs.iter().map(|_| PairTally::default()).collect();
    for (index, window) in windows.iter().enumerate() {
        for run in &mut runs {
            run.cache.clear();
        }
        for tally in &mut tallies {
            tally.window_means.push(Vec::new());
        }
        for start in (0..window.len()).step_by(options.rows) {
            let end = window.len().min(start + options.rows);
            let batches = runs
                .iter_mut()
                .map(|run| run.forward(window, start..end))
                .collect::<Result<Vec<_>>>()?;
            for (tally, &(baseline, candidate)) in tallies.iter_mut().zip(pairs) {
                let place = Place {
                    window,
                    index,
                    start,
                    options,
                };
                tally.add(&place, &batches[baseline], &batches[candidate]);
            }
            progress(end - start);
        }
    }
    Ok(Measurement {
        tokens: windows.iter().map(Vec::len).sum(),
        windows: windows.len(),
        arms: runs.iter().map(ArmRun::report).collect(),
        pairs: tallies
            .into_iter()
            .zip(pairs)
            .map(|(tally, &(baseline, candidate))| {
                tally.report(&arms[baseline].name, &arms[candidate].name)
            })
            .collect(),
    })
}

fn check(
    arms: &[Arm<'_>],
    pairs: &[(usize, usize)],
    windows: &[Vec<u32>],
    options: &KlOptions,
) -> Result<()> {
    if windows.iter().all(Vec::is_empty) {
        return Err(ModelError::EmptyPrompt);
    }
    if options.rows == 0 {
        return Err(ModelError::invalid(
            "rows in one forward pass",
            0,
            "at least 1",
        ));
    }
    for &(baseline, candidate) in pairs {
        let (Some(p), Some(q)) = (arms.get(baseline), arms.get(candidate)) else {
            return Err(ModelError::invalid(
                "pair of arms",
                format!("({baseline}, {candidate})"),
                format!("indices below {}", arms.len()),
            ));
        };
        let (p, q) = (p.model.config().vocabulary, q.model.config().vocabulary);
        if p != q {
            return Err(ModelError::invalid(
                "candidate's vocabulary",
                q,
                format!("the baseline's {p}"),
            ));
        }
    }
    for arm in arms {
        for window in windows {
            arm.model.new_cache().check_room(window.len())?;
        }
    }
    Ok(())
}

/// One arm's sequence, and what it has gathered.
struct ArmRun<'a> {
    arm: &'a Arm<'a>,
    cache: KvCache,
    usage: Usage,
    seconds: f64,
    negative_log_likelihoods: Vec<f64>,
}

/// Logits of consecutive positions.
struct Batch {
    logits: Vec<f32>,
    vocabulary: usize,
    softmaxes: Vec<LogSoftmax>,
}

impl Batch {
    fn row(&self, row: usize) -> (&[f32], LogSoftmax) {
        let logits = &self.logits[row * self.vocabulary..][..self.vocabulary];
        (logits, self.softmaxes[row])
    }

    fn top(&self, row: usize) -> TopToken {
        let (logits, softmax) = self.row(row);
        let probability = softmax.log_probability(logits[softmax.top]).exp();
        TopToken {
            token: softmax.top as u32,
            probability,
        }
    }
}

impl<'a> ArmRun<'a> {
    fn new(arm: &'a Arm<'a>) -> Self {
        Self {
            arm,
            cache: arm.model.new_cache(),
            usage: Usage::default(),
            seconds: 0.0,
            negative_log_likelihoods: Vec::new(),
        }
    }

    fn forward(&mut self, window: &[u32], part: std::ops::Range<usize>) -> Result<Batch> {
        let begin = Instant::now();
        let pass = Pass {
            kernels: self.arm.kernels,
            usage: Some(&self.usage),
            statistics: None,
        };
        let logits = self
            .arm
            .model
            .forward(&window[part.clone()], &mut self.cache, pass)?;
        let logits = logits.as_dtype(Dtype::Float32)?;
        let logits = logits
            .to_vec_exact::<f32>()
            .map_err(|error| ModelError::invalid("logits", error, "float32 values"))?;
        self.seconds += begin.elapsed().as_secs_f64();

        let vocabulary = self.arm.model.config().vocabulary as usize;
        let softmaxes: Vec<_> = logits.par_chunks(vocabulary).map(LogSoftmax::of).collect();
        if let Some(row) = softmaxes.iter().position(|softmax| !softmax.is_finite()) {
            return Err(ModelError::invalid(
                format!(
                    "logits of {} at position {}",
                    self.arm.name,
                    part.start + row
                ),
                "without a finite normalisation",
                "numbers: the weights may be damaged, or the activations overflow their type",
            ));
        }
        let batch = Batch {
            logits,
            vocabulary,
            softmaxes,
        };
        for (row, next) in window[part.start + 1..].iter().take(part.len()).enumerate() {
            let (logits, softmax) = batch.row(row);
            self.negative_log_likelihoods
                .push(-softmax.log_probability(logits[*next as usize]));
        }
        Ok(batch)
    }

    fn report(&self) -> ArmReport {
        ArmReport {
            name: self.arm.name.clone(),
            perplexity: mean(&self.negative_log_likelihoods).exp(),
            seconds: self.seconds,
            kernels: self.usage.lines(),
        }
    }
}

/// Where a batch stands.
struct Place<'a> {
    window: &'a [u32],
    index: usize,
    start: usize,
    options: &'a KlOptions,
}

/// What is gathered of one pair.
#[derive(Default)]
struct PairTally {
    forward: Vec<f64>,
    reverse: Vec<f64>,
    agreements: usize,
    /// Divergences of each window.
    window_means: Vec<Vec<f64>>,
    worst: Vec<WorstToken>,
}

impl PairTally {
    fn add(&mut self, place: &Place<'_>, baseline: &Batch, candidate: &Batch) {
        let rows = baseline.softmaxes.len();
        let divergences: Vec<Divergence> = (0..rows)
            .into_par_iter()
            .map(|row| Divergence::between(baseline.row(row), candidate.row(row)))
            .collect();
        for (row, divergence) in divergences.iter().enumerate() {
            self.forward.push(divergence.forward);
            self.reverse.push(divergence.reverse);
            if let Some(window) = self.window_means.last_mut() {
                window.push(divergence.forward);
            }
            let tops = (baseline.top(row), candidate.top(row));
            self.agreements += usize::from(tops.0.token == tops.1.token);
            self.note_worst(place, row, divergence.forward, tops);
        }
    }

    fn note_worst(
        &mut self,
        place: &Place<'_>,
        row: usize,
        kl: f64,
        (baseline_top, candidate_top): (TopToken, TopToken),
    ) {
        let rank = self
            .worst
            .partition_point(|worse| worse.kl.total_cmp(&kl).is_ge());
        if rank >= place.options.worst {
            return;
        }
        let position = place.start + row;
        let context_start = (position + 1).saturating_sub(place.options.context);
        self.worst.insert(
            rank,
            WorstToken {
                window: place.index,
                position,
                kl,
                context: place.window[context_start..=position].to_vec(),
                next: place.window.get(position + 1).copied(),
                baseline_top,
                candidate_top,
            },
        );
        self.worst.truncate(place.options.worst);
    }

    fn report(self, baseline: &str, candidate: &str) -> PairReport {
        let means: Vec<f64> = self
            .window_means
            .iter()
            .map(|window| mean(window))
            .collect();
        PairReport {
            baseline: baseline.to_owned(),
            candidate: candidate.to_owned(),
            kl: Summary::of(&self.forward),
            reverse_kl: Summary::of(&self.reverse),
            top1_agreement: self.agreements as f64 / self.forward.len() as f64,
            window_means: WindowSpread {
                min: means.iter().copied().fold(f64::INFINITY, f64::min),
                max: means.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                deviation: deviation(&means),
            },
            worst: self.worst,
        }
    }
}
