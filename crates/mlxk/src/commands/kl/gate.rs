//! Thresholds that a measurement has to keep.

use std::fmt;

use mlx_model::kl::{Measurement, PairReport};
use serde::Serialize;

use super::{DENSE, STOCK};

/// Thresholds; those not given are not checked.
#[derive(Debug, clap::Args)]
pub struct Gates {
    /// Fail if the mean KL of baseline to candidate is more than this, in nats.
    #[arg(long, value_name = "X", value_parser = nats)]
    max_mean_kl: Option<f64>,

    /// Fail if the KL at any position is more than this, in nats.
    #[arg(long, value_name = "X", value_parser = nats)]
    max_kl: Option<f64>,

    /// Fail if baseline and candidate find the same token likeliest at less than this share of
    /// positions (0 to 1).
    #[arg(long, value_name = "X", value_parser = share)]
    min_top1: Option<f64>,

    /// Fail if the candidate's mean KL to dense is more than that of stock MLX.
    #[arg(long, conflicts_with = "no_reference")]
    no_worse_than_stock: bool,
}

/// A divergence that a gate may ask for.
fn nats(text: &str) -> Result<f64, String> {
    number(text, f64::INFINITY, "a number of at least 0")
}

/// A share of positions.
fn share(text: &str) -> Result<f64, String> {
    number(text, 1.0, "a number from 0 to 1")
}

fn number(text: &str, most: f64, expected: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("expected {expected}"))
}

/// A threshold and what was measured.
#[derive(Debug, Serialize)]
pub struct Gate {
    what: &'static str,
    found: f64,
    limit: f64,
    /// Whether the limit is the most, or else the least, that is allowed.
    most: bool,
    /// Whether it was kept; NaN keeps nothing.
    pub holds: bool,
}

impl Gate {
    fn at_most(what: &'static str, found: f64, limit: f64) -> Self {
        Self {
            what,
            found,
            limit,
            most: true,
            holds: found <= limit,
        }
    }

    fn at_least(what: &'static str, found: f64, limit: f64) -> Self {
        Self {
            what,
            found,
            limit,
            most: false,
            holds: found >= limit,
        }
    }
}

impl Gates {
    /// Holds the first pair, and where asked for the pairs with dense, against the thresholds.
    pub fn judge(&self, measured: &Measurement) -> Vec<Gate> {
        let Some(main) = measured.pairs.first() else {
            return Vec::new();
        };
        let mut gates = Vec::new();
        if let Some(limit) = self.max_mean_kl {
            gates.push(Gate::at_most("mean KL", main.kl.mean, limit));
        }
        if let Some(limit) = self.max_kl {
            gates.push(Gate::at_most("largest KL", main.kl.max, limit));
        }
        if let Some(limit) = self.min_top1 {
            gates.push(Gate::at_least(
                "top-1 agreement",
                main.top1_agreement,
                limit,
            ));
        }
        if self.no_worse_than_stock {
            let (stock, candidate) = to_dense(&measured.pairs, &main.candidate);
            gates.push(Gate::at_most(
                "mean KL to dense, at most stock's",
                candidate,
                stock,
            ));
        }
        gates
    }
}

/// Mean KL of dense to stock and of dense to the candidate; NaN for what was not measured.
pub fn to_dense(pairs: &[PairReport], candidate: &str) -> (f64, f64) {
    let mean = |name: &str| {
        pairs
            .iter()
            .find(|pair| pair.baseline == DENSE && pair.candidate == name)
            .map_or(f64::NAN, |pair| pair.kl.mean)
    };
    (mean(STOCK), mean(candidate))
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what, found, limit, ..
        } = self;
        let bound = if self.most { "at most" } else { "at least" };
        let verdict = if self.holds { "holds" } else { "FAILS" };
        write!(f, "{verdict}: {what} is {found:.3e}, {bound} {limit:.3e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_fails_both_kinds_of_gate() {
        assert!(Gate::at_most("x", 1.0, 1.0).holds);
        assert!(!Gate::at_most("x", 1.5, 1.0).holds);
        assert!(!Gate::at_most("x", f64::NAN, 1.0).holds);
        assert!(Gate::at_least("x", 1.0, 1.0).holds);
        assert!(!Gate::at_least("x", f64::NAN, 0.0).holds);
    }
}
