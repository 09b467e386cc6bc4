//! What a check finds.

use std::time::Duration;

use thiserror::Error;

/// What one check, or several together, measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Findings {
    /// The largest norm of an error over the norm of the float64 result.
    pub relative_error: f64,
    /// The largest error of an element over its bound.
    pub of_bound: f64,
    /// Results compared bit for bit, with an exact value or with another run's.
    pub equalities: u64,
}

impl Findings {
    /// What both measured.
    pub fn and(self, other: Self) -> Self {
        Self {
            relative_error: self.relative_error.max(other.relative_error),
            of_bound: self.of_bound.max(other.of_bound),
            equalities: self.equalities + other.equalities,
        }
    }

    /// So many comparisons bit for bit, and nothing measured.
    pub fn equal(equalities: u64) -> Self {
        Self {
            equalities,
            ..Self::default()
        }
    }
}

/// Why a case does not hold.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// The kernel could not be compiled or launched, or the run was refused.
    #[error("did not run: {0}")]
    Run(String),

    /// A result of another shape or type.
    #[error("the result is {found}; expected {expected}")]
    Kind {
        /// Shape and type of the result.
        found: String,
        /// What they must be.
        expected: String,
    },

    /// An element outside its error bound.
    #[error("element {index} is {found:e}; expected {expected:e} within {bound:e}")]
    Bound {
        /// Its place in row-major order.
        index: usize,
        /// The kernel's result.
        found: f32,
        /// The float64 result.
        expected: f64,
        /// How far apart the two may be.
        bound: f64,
    },

    /// The result as a whole further from float64 than its type explains.
    #[error("the relative error is {found:e}; at most {allowed:e} expected")]
    Relative {
        /// Norm of the error over norm of the result.
        found: f64,
        /// The most that it may be.
        allowed: f64,
    },

    /// An element with other bits than it must have.
    #[error(
        "{contract}: element {index} is {found:e} ({:#x}); expected {expected:e} ({:#x})",
        found.to_bits(),
        expected.to_bits()
    )]
    Bits {
        /// The equality that does not hold.
        contract: &'static str,
        /// Its place in row-major order.
        index: usize,
        /// The kernel's result.
        found: f32,
        /// What it must be, sign of zero included; any NaN for NaN.
        expected: f32,
    },

    /// A token other than the definition's.
    #[error("row {row} gives token {found}; expected {expected}")]
    Token {
        /// The row of logits.
        row: usize,
        /// The kernel's choice.
        found: u32,
        /// The definition's.
        expected: u32,
    },
}

impl Failure {
    /// A run that did not come to a result.
    pub fn run(error: impl std::fmt::Display) -> Self {
        Self::Run(error.to_string())
    }
}

impl From<mlx_kernels::Error> for Failure {
    fn from(error: mlx_kernels::Error) -> Self {
        Self::run(error)
    }
}

impl From<mlx_rs::error::Exception> for Failure {
    fn from(error: mlx_rs::error::Exception) -> Self {
        Self::run(error.what())
    }
}

/// A case that has been run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was measured, or what is wrong.
    pub result: Result<Findings, Failure>,
    /// How long it took: on the first run of a kernel, mostly its compilation.
    pub time: Duration,
}

/// Compares bit for bit; any NaN equals any other.
///
///
/// The first element that differs.
pub fn same_bits(
    contract: &'static str,
    found: &[f32],
    expected: &[f32],
) -> Result<Findings, Failure> {
    same_length(found.len(), expected.len())?;
    for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
        if !same {
            return Err(Failure::Bits {
                contract,
                index,
                found,
                expected,
            });
        }
    }
    Ok(Findings::equal(1))
}

/// Compares with float64 results, each with its bound.
///
///
/// The first element outside its bound.
pub fn within_bounds(found: &[f32], expected: &[f64], bounds: &[f64]) -> Result<Findings, Failure> {
    same_length(found.len(), expected.len())?;
    let mut findings = Findings::default();
    let (mut error_norm, mut norm) = (0.0, 0.0);
    for (index, ((&found, &expected), &bound)) in found.iter().zip(expected).zip(bounds).enumerate()
    {
        let error = (f64::from(found) - expected).abs();
        // Not `error > bound`, which NaN would pass.
        let holds = error <= bound;
        if !holds {
            return Err(Failure::Bound {
                index,
                found,
                expected,
                bound,
            });
        }
        findings.of_bound = findings.of_bound.max(error / bound);
        error_norm += error * error;
        norm += expected * expected;
    }
    if norm > 0.0 {
        findings.relative_error = (error_norm / norm).sqrt();
    }
    Ok(findings)
}

fn same_length(found: usize, expected: usize) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(Failure::Kind {
        found: format!("{found} elements"),
        expected: expected.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_zero_count_and_payloads_of_nan_do_not() {
        assert!(same_bits("x", &[0.0], &[-0.0]).is_err());
        assert!(same_bits("x", &[f32::NAN], &[-f32::NAN]).is_ok());
        assert!(same_bits("x", &[1.0], &[1.0, 2.0]).is_err());
    }

    #[test]
    fn nan_is_outside_every_bound() {
        assert!(within_bounds(&[f32::NAN], &[0.0], &[f64::INFINITY]).is_err());
        let findings = within_bounds(&[1.5, 2.0], &[1.0, 2.0], &[1.0, 1.0]).unwrap();
        assert_eq!(findings.of_bound, 0.5);
        assert_eq!(findings.relative_error, (0.25_f64 / 5.0).sqrt());
    }
}
