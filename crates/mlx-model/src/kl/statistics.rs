//! Summary statistics of one quantity over tokens.

use serde::Serialize;

/// Mean, spread and tail of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard error of the mean, taking tokens for independent; NaN for fewer than two.
    pub standard_error: f64,
    /// The middle value.
    pub median: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
}

impl Summary {
    /// Summarises a sample. Any NaN in it makes mean and maximum NaN; so does an empty one.
    #[must_use]
    pub fn of(sample: &[f64]) -> Self {
        let mut sorted = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mean = mean(sample);
        Self {
            mean,
            standard_error: deviation(sample) / (sample.len() as f64).sqrt(),
            median: quantile(&sorted, 0.5),
            p99: quantile(&sorted, 0.99),
            max: quantile(&sorted, 1.0),
        }
    }
}

/// Arithmetic mean; NaN of nothing.
pub(super) fn mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / sample.len() as f64
}

/// Standard deviation with the sample's own mean; NaN for fewer than two values.
pub(super) fn deviation(sample: &[f64]) -> f64 {
    if sample.len() < 2 {
        return f64::NAN;
    }
    let mean = mean(sample);
    let squares: f64 = sample.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (sample.len() - 1) as f64).sqrt()
}

/// Quantile by linear interpolation between neighbours; NaN of nothing.
fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = fraction * last as f64;
    let (below, above) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    if below.total_cmp(&above).is_eq() {
        below
    } else {
        below + (above - below) * place.fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_known_numbers() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(summary.mean, 2.5);
        assert_eq!(summary.median, 2.5);
        assert_eq!(summary.max, 4.0);
        assert!((summary.p99 - 3.97).abs() < 1e-12);
        assert!((summary.standard_error - (5f64 / 3.0).sqrt() / 2.0).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_no_error_and_nan_is_not_hidden() {
        let one = Summary::of(&[0.25]);
        assert_eq!(
            (one.mean, one.median, one.p99, one.max),
            (0.25, 0.25, 0.25, 0.25)
        );
        assert!(one.standard_error.is_nan());
        let broken = Summary::of(&[1.0, f64::NAN, 2.0]);
        assert!(broken.mean.is_nan() && broken.max.is_nan());
        assert!(Summary::of(&[]).mean.is_nan());
    }
}
