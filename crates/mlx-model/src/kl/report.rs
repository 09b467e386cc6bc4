//! What a measurement found.

use serde::Serialize;

use super::statistics::Summary;
use crate::usage::UsageLine;

/// Everything that one measurement found.
#[derive(Debug, Clone, Serialize)]
pub struct Measurement {
    /// Positions compared.
    pub tokens: usize,
    /// Windows read.
    pub windows: usize,
    /// Each arm by itself, in the order given.
    pub arms: Vec<ArmReport>,
    /// Each pair of arms, in the order given.
    pub pairs: Vec<PairReport>,
}

/// One arm by itself.
#[derive(Debug, Clone, Serialize)]
pub struct ArmReport {
    /// The arm's name.
    pub name: String,
    /// Exponential of the mean negative log-likelihood of each next token within its window.
    pub perplexity: f64,
    /// Seconds in forward passes.
    pub seconds: f64,
    /// Kernels used.
    pub kernels: Vec<UsageLine>,
}

/// A candidate against a baseline. Divergences are in nats.
#[derive(Debug, Clone, Serialize)]
pub struct PairReport {
    /// The baseline arm's name.
    pub baseline: String,
    /// The candidate arm's name.
    pub candidate: String,
    /// KL of the baseline to the candidate, over positions.
    pub kl: Summary,
    /// KL of the candidate to the baseline, over positions.
    pub reverse_kl: Summary,
    /// Share of positions where both find the same token likeliest.
    pub top1_agreement: f64,
    /// Spread of the windows' mean KL.
    pub window_means: WindowSpread,
    /// The positions of largest KL, largest first.
    pub worst: Vec<WorstToken>,
}

/// Spread of a mean over windows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WindowSpread {
    /// Lowest window mean.
    pub min: f64,
    /// Highest window mean.
    pub max: f64,
    /// Standard deviation of the window means; NaN for one window.
    pub deviation: f64,
}

/// A position where two arms differ most.
#[derive(Debug, Clone, Serialize)]
pub struct WorstToken {
    /// Window, counted from 0.
    pub window: usize,
    /// Position within the window, counted from 0.
    pub position: usize,
    /// KL of the baseline to the candidate.
    pub kl: f64,
    /// Tokens up to and including the position, as many as were asked for.
    pub context: Vec<u32>,
    /// The token that follows in the text, if the window goes on.
    pub next: Option<u32>,
    /// What the baseline finds likeliest to follow.
    pub baseline_top: TopToken,
    /// What the candidate finds likeliest to follow.
    pub candidate_top: TopToken,
}

/// The likeliest token of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TopToken {
    /// Its id.
    pub token: u32,
    /// Its probability.
    pub probability: f64,
}
