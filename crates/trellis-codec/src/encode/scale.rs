//! The scale of a row: the fixed statistic, a prediction of the best one, and the least-squares fit to given states.

use half::f16;

use crate::{Format, codebook};

/// Largest magnitude of a normalized sample; costs stay finite whatever the scale.
const SAMPLE_LIMIT: f32 = 1e4;

/// Magnitude the code covers well at `k = 1 ..= 8`: beyond it the error grows with the distance. Fitted to the error
/// of samples conditional on their magnitude (`L = 12`); the largest value of the code is 3.07.
const REACH: [f64; 8] = [2.35, 2.62, 2.86, 2.98, 3.02, 3.04, 3.05, 3.05];

/// Relative error of well covered samples at `k = 1 ..= 8`, measured on unit Gaussians less the excess beyond [`REACH`].
const GRANULAR: [f64; 8] = [
    0.27, 0.071, 0.018, 0.0045, 0.001_15, 0.000_32, 0.000_09, 0.000_025,
];

/// What the measured optimum on Gaussian rows is to the predicted one, at `k = 1 ..= 8`.
const CORRECTION: [f64; 8] = [0.85, 0.99, 1.04, 1.035, 1.035, 1.04, 1.06, 1.06];

/// The f16 scale nearest to `scale`, kept positive and finite.
pub(crate) fn to_f16(scale: f64) -> f16 {
    let smallest = f16::from_bits(1);
    f16::from_f64(scale).clamp(smallest, f16::MAX)
}

/// Root mean square of the row over that of the code; 1 for a row of zeros.
pub(crate) fn rms_scale(row: &[f32], code_rms: f64) -> f64 {
    let power: f64 = row.iter().map(|&w| f64::from(w).powi(2)).sum();
    let rms = (power / row.len() as f64).sqrt();
    if rms > 0.0 { rms / code_rms } else { 1.0 }
}

/// The factor to the fixed statistic that should give the least error, from the distribution of the row's magnitudes.
///
/// A code of values distributed as `N(0, a^2)` represents samples of unit variance with an error proportional to
/// `exp(2 E[-ln p])`, that is `a^2 exp(1 / a^2)` (the cost of coding for the wrong density at high rate); samples
/// beyond the code's reach add the square of what is missing. The first term is least at 1, the second falls with `a`.
pub(crate) fn predicted_factor(row: &[f32], rms_scale: f64, format: Format) -> f64 {
    const RATIO: f64 = 1.02;
    let index = format.bits() as usize - 1;
    let (reach, granular) = (REACH[index], GRANULAR[index]);
    let magnitudes = row.iter().map(|&w| (f64::from(w) / rms_scale).abs());
    let tail: Vec<f64> = magnitudes.filter(|&x| x > reach).collect();
    let predicted_error = |a: f64| {
        let missing: f64 = tail.iter().map(|x| (x - a * reach).max(0.0).powi(2)).sum();
        granular * a.powi(2) * (a.powi(-2) - 1.0).exp() + missing / row.len() as f64
    };
    // The error is convex enough for a walk uphill from 1 that stops at the first rise.
    let mut factor = 1.0;
    let mut error = predicted_error(factor);
    loop {
        let next = predicted_error(factor * RATIO);
        if next >= error {
            return factor * CORRECTION[index];
        }
        (factor, error) = (factor * RATIO, next);
    }
}

/// Writes the row divided by the scale.
pub(crate) fn normalize(row: &[f32], scale: f16, normalized: &mut Vec<f32>) {
    let divisor = scale.to_f32();
    normalized.clear();
    normalized.extend(
        row.iter()
            .map(|w| (w / divisor).clamp(-SAMPLE_LIMIT, SAMPLE_LIMIT)),
    );
}

/// Sums over a row and the values of its states from which the error at any scale follows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fit {
    power: f64,
    product: f64,
    code_power: f64,
}

impl Fit {
    pub(crate) fn new(row: &[f32], states: &[u16], values: &[f32]) -> Self {
        let mut fit = Self::default();
        for (&w, &state) in row.iter().zip(states) {
            let (w, v) = (f64::from(w), f64::from(values[usize::from(state)]));
            fit.power += w * w;
            fit.product += w * v;
            fit.code_power += v * v;
        }
        fit
    }

    /// The f16 scale of least squared error for these states; `fallback` where none is positive.
    pub(crate) fn best_scale(&self, fallback: f16) -> f16 {
        if self.product > 0.0 {
            to_f16(self.product / self.code_power)
        } else {
            fallback
        }
    }

    /// Squared norm of the row.
    pub(crate) fn power(&self) -> f64 {
        self.power
    }

    /// Squared error of the row at a scale.
    pub(crate) fn error(&self, scale: f16) -> f64 {
        let scale = scale.to_f64();
        (self.power - 2.0 * scale * self.product + scale * scale * self.code_power).max(0.0)
    }
}

/// Root mean square of the values of a format's states.
pub(crate) fn code_rms(format: Format) -> f64 {
    codebook::rms(format.state_bits())
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "scales are chosen to be exact")]
mod tests {
    use super::*;

    #[test]
    fn scales_stay_positive_and_finite() {
        assert_eq!(to_f16(1e-12), f16::from_bits(1));
        assert_eq!(to_f16(1e12), f16::MAX);
        assert_eq!(to_f16(0.5), f16::from_f32(0.5));
        assert_eq!(rms_scale(&[0.0; 32], 1.0), 1.0);
        assert_eq!(rms_scale(&[3.0, -4.0, 3.0, -4.0], 1.0), 12.5_f64.sqrt());
    }

    #[test]
    fn tails_ask_for_larger_scales() {
        let format = Format::new(4, 12, 32).unwrap();
        let mut row = vec![1.0_f32; 1024];
        let flat = predicted_factor(&row, rms_scale(&row, 1.0), format);
        row[7] = 20.0;
        let peaked = predicted_factor(&row, rms_scale(&row, 1.0), format);
        assert_eq!(flat, CORRECTION[3]);
        assert!(peaked > 1.3 * flat, "{peaked} against {flat}");
    }

    #[test]
    fn the_fit_is_the_least_squares_scale() {
        let fit = Fit::new(&[2.0, -1.0, 1.0], &[0, 1, 2], &[1.0, -0.5, 0.25]);
        let best = fit.best_scale(f16::ONE);
        for other in [best.to_f32() * 0.9, best.to_f32() * 1.1] {
            assert!(fit.error(best) < fit.error(f16::from_f32(other)));
        }
        let direct = (2.0 - 1.0_f64).powi(2) + (-1.0 + 0.5_f64).powi(2) + (1.0 - 0.25_f64).powi(2);
        assert!((fit.error(f16::ONE) - direct).abs() < 1e-12);
        assert_eq!(Fit::default().best_scale(f16::ONE), f16::ONE);
    }
}
