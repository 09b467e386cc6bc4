//! Kullback-Leibler divergence of two softmax distributions, from their logits.

/// The normalisation of one row of logits, in float64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogSoftmax {
    /// Logarithm of the sum of the logits' exponentials.
    log_sum_exp: f64,
    /// Index of the largest logit, the first of equals.
    pub top: usize,
}

impl LogSoftmax {
    /// Reads a row of logits; an empty one has no distribution and gives NaN everywhere.
    #[must_use]
    pub fn of(logits: &[f32]) -> Self {
        let mut top = 0;
        for (index, logit) in logits.iter().enumerate() {
            if *logit > logits[top] {
                top = index;
            }
        }
        let max = logits.get(top).map_or(f64::NAN, |&logit| f64::from(logit));
        let sum: f64 = logits
            .iter()
            .map(|&logit| (f64::from(logit) - max).exp())
            .sum();
        Self {
            log_sum_exp: max + sum.ln(),
            top,
        }
    }

    /// Whether the logits make a distribution: no NaN, no positive infinity, and something finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.log_sum_exp.is_finite()
    }

    /// Log-probability of the token whose logit is given, in nats.
    #[must_use]
    pub fn log_probability(&self, logit: f32) -> f64 {
        f64::from(logit) - self.log_sum_exp
    }
}

/// Divergence of two distributions both ways, in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Divergence {
    /// `sum p ln(p / q)`: what is lost by taking the candidate q for the baseline p.
    pub forward: f64,
    /// `sum q ln(q / p)`.
    pub reverse: f64,
}

impl Divergence {
    /// Compares two rows of logits over the same vocabulary.
    ///
    /// With `d = ln(p / q)` the sum of `p d` is also that of `p (d + exp(-d) - 1)`, because p and q
    /// both sum to 1. No term of the latter is negative and small ones do not cancel, so that
    /// divergences far below float64's epsilon still come out with their digits.
    #[must_use]
    pub fn between(p: (&[f32], LogSoftmax), q: (&[f32], LogSoftmax)) -> Self {
        let (mut forward, mut reverse) = (0.0, 0.0);
        for (&p_logit, &q_logit) in p.0.iter().zip(q.0) {
            let p_log = p.1.log_probability(p_logit);
            let q_log = q.1.log_probability(q_logit);
            let (p, q, d) = (p_log.exp(), q_log.exp(), p_log - q_log);
            forward += term(p, q, d);
            reverse += term(q, p, -d);
        }
        Self { forward, reverse }
    }
}

/// `p (d + exp(-d) - 1)`, where `d = ln(p / q)`.
fn term(p: f64, q: f64, d: f64) -> f64 {
    if p == 0.0 {
        q
    } else if d.abs() < 0.5 {
        p * ((-d).exp_m1() + d)
    } else {
        p * d + (q - p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divergence(p: &[f32], q: &[f32]) -> Divergence {
        Divergence::between((p, LogSoftmax::of(p)), (q, LogSoftmax::of(q)))
    }

    /// The definition, term by term.
    fn by_definition(p: &[f32], q: &[f32]) -> f64 {
        let softmax = |logits: &[f32]| {
            let powers: Vec<f64> = logits.iter().map(|&x| f64::from(x).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers
                .into_iter()
                .map(|power| power / sum)
                .collect::<Vec<_>>()
        };
        softmax(p)
            .iter()
            .zip(softmax(q))
            .map(|(p, q)| p * (p / q).ln())
            .sum()
    }

    #[test]
    fn agrees_with_the_definition() {
        let p = [0.3, -1.2, 2.5, 0.0, 7.25, -30.0];
        let q = [1.3, -1.1, 2.0, 4.0, 6.25, -31.5];
        let found = divergence(&p, &q);
        assert!(
            (found.forward - by_definition(&p, &q)).abs() < 1e-14,
            "{found:?}"
        );
        assert!(
            (found.reverse - by_definition(&q, &p)).abs() < 1e-14,
            "{found:?}"
        );
    }

    #[test]
    fn two_outcomes_have_a_closed_form() {
        // p = (1/2, 1/2), q = (1/4, 3/4).
        let found = divergence(&[0.0, 0.0], &[0.0, 3f32.ln()]);
        let expected = 0.5 * 2f64.ln() + 0.5 * (2f64 / 3.0).ln();
        assert!((found.forward - expected).abs() < 1e-7, "{found:?}");
    }

    #[test]
    fn equal_rows_and_shifted_rows_do_not_diverge() {
        let p = [0.5, -2.0, 3.0];
        let shifted = [8.5, 6.0, 11.0];
        assert_eq!(
            divergence(&p, &p),
            Divergence {
                forward: 0.0,
                reverse: 0.0
            }
        );
        assert!(divergence(&p, &shifted).forward < 1e-30);
    }

    #[test]
    fn tiny_divergences_keep_their_digits() {
        // To second order KL is half the variance of the logits' difference under p.
        let step = 2f32.powi(-20);
        let found = divergence(&[0.0, 0.0], &[0.0, step]);
        let expected = f64::from(step).powi(2) / 8.0;
        assert!(
            (found.forward / expected - 1.0).abs() < 1e-5,
            "{found:?} {expected}"
        );
    }

    #[test]
    fn impossible_tokens_and_broken_logits() {
        let masked = [0.0, f32::NEG_INFINITY];
        assert_eq!(divergence(&masked, &masked).forward, 0.0);
        let found = divergence(&masked, &[0.0, 0.0]);
        assert!((found.forward - 2f64.ln()).abs() < 1e-15);
        assert!(found.reverse.is_infinite());
        assert!(divergence(&[f32::NAN, 0.0], &[0.0, 0.0]).forward.is_nan());
    }
}
