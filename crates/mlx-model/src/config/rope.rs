//! Rotary position embedding: base, partial dimensions, context-extension scaling.

use crate::error::{ModelError, Result};

/// Rotary embedding of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeConfig {
    /// Base of the geometric series of periods.
    pub base: f32,
    /// Leading dimensions of each head that are rotated; even.
    pub dimensions: i32,
    /// Whether the two halves of a rotated pair are neighbours (true: GGUF's Llama row order) or
    /// half the rotated width apart (false: Hugging Face's order).
    pub traditional: bool,
    /// Context extension.
    pub scaling: RopeScaling,
}

/// How positions or periods are stretched beyond the pre-training context.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Positions divided by a factor.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// Llama 3.1: long periods stretched, short ones kept, a linear ramp between.
    Llama3 {
        /// Stretch of the longest periods.
        factor: f32,
        /// Below `original_context / low_freq_factor` turns, stretch fully.
        low_freq_factor: f32,
        /// Above `original_context / high_freq_factor` turns, keep.
        high_freq_factor: f32,
        /// Pre-training context length in tokens.
        original_context: f32,
    },
    /// `YaRN` (Peng et al. 2023, arXiv 2309.00071): a ramp over dimensions, and q and k scaled.
    Yarn {
        /// Stretch of the longest periods.
        factor: f32,
        /// Turns within the original context above which a period is kept.
        beta_fast: f32,
        /// Turns below which a period is stretched fully.
        beta_slow: f32,
        /// Pre-training context length in tokens.
        original_context: f32,
        /// Factor on q and k.
        attention_factor: f32,
    },
    /// Each period multiplied by a factor stored with the weights (GGUF's `rope_freqs.weight`).
    Factors(Vec<f32>),
}

impl RopeScaling {
    /// The paper's default attention factor for a `YaRN` stretch.
    #[must_use]
    pub fn yarn_attention_factor(factor: f32) -> f32 {
        if factor <= 1.0 {
            1.0
        } else {
            0.1f32.mul_add(factor.ln(), 1.0)
        }
    }
}

impl RopeConfig {
    pub(super) fn validate(&self, head_dim: i32) -> Result<()> {
        if self.dimensions < 2 || self.dimensions % 2 != 0 || self.dimensions > head_dim {
            return Err(ModelError::invalid(
                "rotary dimensions",
                self.dimensions,
                format!("even, from 2 to the head's {head_dim}"),
            ));
        }
        positive("rotary base", self.base)?;
        match &self.scaling {
            RopeScaling::None => Ok(()),
            RopeScaling::Linear { factor } => positive("rotary scaling factor", *factor),
            RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_context,
            } => {
                positive("rotary scaling factor", *factor)?;
                positive("low_freq_factor", *low_freq_factor)?;
                positive("original context length", *original_context)?;
                if high_freq_factor > low_freq_factor {
                    Ok(())
                } else {
                    Err(ModelError::invalid(
                        "high_freq_factor",
                        high_freq_factor,
                        format!("more than low_freq_factor, {low_freq_factor}"),
                    ))
                }
            }
            RopeScaling::Yarn {
                factor,
                beta_fast,
                beta_slow,
                original_context,
                attention_factor,
            } => {
                positive("rotary scaling factor", *factor)?;
                positive("beta_fast", *beta_fast)?;
                positive("beta_slow", *beta_slow)?;
                positive("original context length", *original_context)?;
                positive("attention factor", *attention_factor)?;
                // The attention factor would have to skip the unrotated dimensions.
                if self.dimensions == head_dim {
                    Ok(())
                } else {
                    Err(ModelError::invalid(
                        "rotary dimensions under yarn scaling",
                        self.dimensions,
                        format!("the whole head, {head_dim}"),
                    ))
                }
            }
            RopeScaling::Factors(factors) => {
                if factors.len() == self.dimensions as usize / 2 {
                    factors
                        .iter()
                        .try_for_each(|&factor| positive("rotary period factor", factor))
                } else {
                    Err(ModelError::invalid(
                        "number of rotary period factors",
                        factors.len(),
                        format!("half the rotary dimensions, {}", self.dimensions / 2),
                    ))
                }
            }
        }
    }

    /// Periods of each rotated pair in units of `1 / 2 pi` tokens, as MLX's rope takes them, where
    /// they are not simply `base^(2i / dimensions)`.
    #[must_use]
    pub fn periods(&self) -> Option<Vec<f32>> {
        match &self.scaling {
            RopeScaling::None | RopeScaling::Linear { .. } => None,
            RopeScaling::Factors(factors) => Some(
                self.plain_periods()
                    .zip(factors)
                    .map(|(p, &f)| (p * f64::from(f)) as f32)
                    .collect(),
            ),
            RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_context,
            } => {
                let (low, high) = (f64::from(*low_freq_factor), f64::from(*high_freq_factor));
                let stretch = f64::from(*factor);
                let context = f64::from(*original_context);
                Some(
                    self.plain_periods()
                        .map(|period| {
                            let turns = context / (std::f64::consts::TAU * period);
                            // 0 where the period is stretched fully, 1 where it is kept.
                            let keep = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                            (period / (keep + (1.0 - keep) / stretch)) as f32
                        })
                        .collect(),
                )
            }
            RopeScaling::Yarn {
                factor,
                beta_fast,
                beta_slow,
                original_context,
                ..
            } => {
                let stretch = f64::from(*factor);
                let pair_of =
                    |turns: f32| self.pair_with_turns(f64::from(turns), *original_context);
                let first = pair_of(*beta_fast).floor().max(0.0);
                let last = pair_of(*beta_slow)
                    .ceil()
                    .min(f64::from(self.dimensions - 1));
                let width = if last > first { last - first } else { 0.001 };
                Some(
                    self.plain_periods()
                        .enumerate()
                        .map(|(pair, period)| {
                            let keep = 1.0 - ((pair as f64 - first) / width).clamp(0.0, 1.0);
                            (period / (keep + (1.0 - keep) / stretch)) as f32
                        })
                        .collect(),
                )
            }
        }
    }

    /// Factor on positions.
    #[must_use]
    pub fn position_scale(&self) -> f32 {
        match self.scaling {
            RopeScaling::Linear { factor } => 1.0 / factor,
            _ => 1.0,
        }
    }

    /// Factor on q and on k, 1 except under `YaRN`.
    #[must_use]
    pub fn attention_factor(&self) -> f32 {
        match self.scaling {
            RopeScaling::Yarn {
                attention_factor, ..
            } => attention_factor,
            _ => 1.0,
        }
    }

    fn plain_periods(&self) -> impl Iterator<Item = f64> + use<> {
        let (base, dimensions) = (f64::from(self.base), self.dimensions);
        (0..dimensions / 2).map(move |pair| base.powf(f64::from(2 * pair) / f64::from(dimensions)))
    }

    /// Index of the pair, as a real number, that makes `turns` full turns over `context` tokens.
    fn pair_with_turns(&self, turns: f64, context: f32) -> f64 {
        let period_ratio = f64::from(context) / (turns * std::f64::consts::TAU);
        f64::from(self.dimensions) * period_ratio.ln() / (2.0 * f64::from(self.base).ln())
    }
}

fn positive(what: &str, value: f32) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(ModelError::invalid(what, value, "a positive number"))
    }
}
