//! Picking a token from logits.

use crate::error::{ModelError, Result};
use crate::random::Random;

/// How a token is picked. The default is greedy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplerOptions {
    /// Divides logits before the softmax; 0 takes the likeliest token always.
    pub temperature: f32,
    /// Keeps this many of the likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the likeliest tokens that together reach this probability; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens of at least this share of the likeliest one's probability; 0 keeps all.
    pub min_p: f32,
    /// Start of the random sequence.
    pub seed: u64,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            seed: 0,
        }
    }
}

/// Picks tokens; equal options and logits give equal picks.
#[derive(Debug, Clone)]
pub struct Sampler {
    options: SamplerOptions,
    random: Random,
}

impl Sampler {
    /// Checks the options.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for a negative temperature or a probability outside 0 to 1.
    pub fn new(options: SamplerOptions) -> Result<Self> {
        if !(options.temperature.is_finite() && options.temperature >= 0.0) {
            let found = options.temperature;
            return Err(ModelError::invalid(
                "temperature",
                found,
                "finite, not negative",
            ));
        }
        if !(options.top_p > 0.0 && options.top_p <= 1.0) {
            return Err(ModelError::invalid(
                "top-p",
                options.top_p,
                "more than 0, at most 1",
            ));
        }
        if !(0.0..=1.0).contains(&options.min_p) {
            return Err(ModelError::invalid("min-p", options.min_p, "0 to 1"));
        }
        Ok(Self {
            options,
            random: Random::new(options.seed),
        })
    }

    /// Whether every pick is the likeliest token.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.options.temperature == 0.0
    }

    /// Picks a token. The filters apply in the order top-k, top-p, min-p, each to the probabilities
    /// at the given temperature; what they leave is drawn from in proportion. 0 of no logits.
    pub fn sample(&mut self, logits: &[f32]) -> u32 {
        let mut ranked: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
        // Descending; ties by index, so that the order is the same everywhere.
        let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let kept = match self.options.top_k {
            0 => ranked.len(),
            k => k.min(ranked.len()),
        };
        if self.is_greedy() || kept == 0 {
            return ranked
                .into_iter()
                .min_by(order)
                .map_or(0, |(token, _)| token);
        }
        if kept < ranked.len() {
            ranked.select_nth_unstable_by(kept - 1, order);
            ranked.truncate(kept);
        }
        ranked.sort_unstable_by(order);
        let probabilities = self.probabilities(&ranked);
        let kept = self.kept(&probabilities);
        ranked[self.draw(&probabilities[..kept])].0
    }

    /// Softmax of ranked logits at the temperature.
    fn probabilities(&self, ranked: &[(u32, f32)]) -> Vec<f64> {
        let top = f64::from(ranked[0].1);
        let temperature = f64::from(self.options.temperature);
        let weights: Vec<f64> = ranked
            .iter()
            .map(|&(_, logit)| ((f64::from(logit) - top) / temperature).exp())
            .collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }

    /// How many of the descending probabilities top-p and min-p keep; at least one.
    fn kept(&self, probabilities: &[f64]) -> usize {
        let mut reached = 0.0;
        let mut kept = probabilities.len();
        if self.options.top_p < 1.0 {
            for (index, probability) in probabilities.iter().enumerate() {
                reached += probability;
                if reached >= f64::from(self.options.top_p) {
                    kept = index + 1;
                    break;
                }
            }
        }
        let floor = f64::from(self.options.min_p) * probabilities[0];
        probabilities[..kept]
            .partition_point(|&probability| probability >= floor)
            .max(1)
    }

    fn draw(&mut self, probabilities: &[f64]) -> usize {
        let mut rest = self.random.uniform() * probabilities.iter().sum::<f64>();
        for (index, probability) in probabilities.iter().enumerate() {
            rest -= probability;
            if rest < 0.0 {
                return index;
            }
        }
        probabilities.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(options: SamplerOptions, logits: &[f32], count: usize) -> Vec<u32> {
        let mut sampler = Sampler::new(options).unwrap();
        (0..count).map(|_| sampler.sample(logits)).collect()
    }

    const LOGITS: [f32; 4] = [1.0, 3.0, 2.0, -1.0];

    #[test]
    fn zero_temperature_takes_the_first_of_the_largest() {
        assert_eq!(
            picks(SamplerOptions::default(), &[1.0, 3.0, 3.0], 3),
            [1, 1, 1]
        );
    }

    #[test]
    fn frequencies_follow_the_softmax() {
        let options = SamplerOptions {
            temperature: 2.0,
            ..Default::default()
        };
        let picks = picks(options, &LOGITS, 20_000);
        let weights: Vec<f64> = LOGITS.iter().map(|x| (f64::from(*x) / 2.0).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for (token, weight) in (0..).zip(weights) {
            let share = picks.iter().filter(|&&pick| pick == token).count() as f64 / 20_000.0;
            assert!(
                (share - weight / sum).abs() < 0.015,
                "token {token}: {share}"
            );
        }
    }

    #[test]
    fn filters_leave_only_what_they_keep() {
        let warm = SamplerOptions {
            temperature: 5.0,
            ..Default::default()
        };
        let distinct = |options| {
            let mut found = picks(options, &LOGITS, 500);
            found.sort_unstable();
            found.dedup();
            found
        };
        assert_eq!(distinct(warm), [0, 1, 2, 3]);
        assert_eq!(distinct(SamplerOptions { top_k: 2, ..warm }), [1, 2]);
        // At temperature 5 the probabilities are about .35, .29, .24, .16.
        assert_eq!(distinct(SamplerOptions { top_p: 0.5, ..warm }), [1, 2]);
        assert_eq!(distinct(SamplerOptions { min_p: 0.6, ..warm }), [0, 1, 2]);
        assert_eq!(distinct(SamplerOptions { min_p: 1.0, ..warm }), [1]);
    }

    #[test]
    fn a_seed_fixes_the_sequence() {
        let options = SamplerOptions {
            temperature: 1.5,
            seed: 7,
            ..Default::default()
        };
        assert_eq!(picks(options, &LOGITS, 50), picks(options, &LOGITS, 50));
        let other = SamplerOptions { seed: 8, ..options };
        assert_ne!(picks(options, &LOGITS, 50), picks(other, &LOGITS, 50));
    }

    #[test]
    fn unusable_options_are_refused() {
        for options in [
            SamplerOptions {
                temperature: -1.0,
                ..Default::default()
            },
            SamplerOptions {
                temperature: f32::NAN,
                ..Default::default()
            },
            SamplerOptions {
                top_p: 0.0,
                ..Default::default()
            },
            SamplerOptions {
                top_p: 1.5,
                ..Default::default()
            },
            SamplerOptions {
                min_p: -0.1,
                ..Default::default()
            },
        ] {
            assert!(
                matches!(Sampler::new(options), Err(ModelError::Invalid { .. })),
                "{options:?}"
            );
        }
    }
}
