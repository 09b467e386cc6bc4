//! The greedy token by rounded log-probability.

use std::fmt;

use mlx_kernels::ops;
use mlx_rs::Dtype;

use super::floats::{self, name, round};
use super::random::Random;
use super::{Failure, Findings};

/// One check at one vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Element type of the logits.
    pub dtype: Dtype,
    /// Rows of logits.
    pub rows: i32,
    /// Logits of a row.
    pub vocabulary: i32,
    /// What the logits are.
    pub logits: Logits,
}

/// What the logits of a case are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logits {
    /// Normally distributed.
    Random,
    /// So close together that subtracting the normalizer makes equals of many: the lowest id of
    /// them wins, not the largest logit.
    Close,
    /// In each row two equal maxima, at places that different threads, simdgroups or tiles look at.
    Tied,
    /// Rows of NaN, of infinities, and of ordinary numbers beside them.
    Special,
}

impl Case {
    /// Compares the tokens with those of the definition, in plain Rust, over the same normalizers.
    pub(super) fn run(&self) -> Result<Findings, Failure> {
        let values = self.values();
        let logits = floats::array(&values, &[self.rows, self.vocabulary], self.dtype);
        let normalizers = floats::values(&logits.logsumexp_axis(-1, false)?)?;
        let tokens = ops::normalized_argmax(&logits)?;
        tokens.eval()?;
        if tokens.shape() != [self.rows] || tokens.dtype() != Dtype::Uint32 {
            return Err(Failure::Kind {
                found: format!("{:?} of {:?}", tokens.shape(), tokens.dtype()),
                expected: format!("[{}] of Uint32", self.rows),
            });
        }
        let rows = values.chunks_exact(self.vocabulary as usize);
        let tokens = tokens.to_vec_exact::<u32>().map_err(Failure::run)?;
        for (row, ((logits, normalizer), found)) in rows.zip(normalizers).zip(tokens).enumerate() {
            let expected = self.token(logits, normalizer);
            if found != expected {
                return Err(Failure::Token {
                    row,
                    found,
                    expected,
                });
            }
        }
        Ok(Findings::equal(self.rows as u64))
    }

    /// The first id of the largest score; NaN counts as minus infinity.
    fn token(&self, logits: &[f32], normalizer: f32) -> u32 {
        let mut best = (0, f32::NEG_INFINITY);
        for (id, logit) in logits.iter().enumerate() {
            let score = round(logit - normalizer, self.dtype);
            if score > best.1 {
                best = (id as u32, score);
            }
        }
        best.0
    }

    fn values(&self) -> Vec<f32> {
        let vocabulary = self.vocabulary as usize;
        let mut random = Random::new(self.vocabulary as u64);
        let mut values = random.normals(self.rows as usize * vocabulary);
        for (row, logits) in values.chunks_exact_mut(vocabulary).enumerate() {
            match self.logits {
                Logits::Random => logits.iter_mut().for_each(|logit| *logit *= 4.0),
                Logits::Close => logits.iter_mut().for_each(|logit| *logit *= 0.02),
                Logits::Tied => {
                    let distance = [1, 64, 128, 1024, vocabulary - 1][row % 5];
                    let first = random.below((vocabulary - distance) as u32) as usize;
                    (logits[first], logits[first + distance]) = (9.0, 9.0);
                }
                Logits::Special => special(row, logits),
            }
        }
        for value in &mut values {
            *value = round(*value, self.dtype);
        }
        values
    }
}

/// By row: ordinary; one NaN; one infinity; nothing but minus infinity; all but one of them.
fn special(row: usize, logits: &mut [f32]) {
    let middle = logits.len() / 2;
    match row % 5 {
        1 => logits[middle] = f32::NAN,
        2 => logits[middle] = f32::INFINITY,
        3 => logits.fill(f32::NEG_INFINITY),
        4 => {
            logits.fill(f32::NEG_INFINITY);
            logits[middle] = -3.0;
        }
        _ => {}
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            dtype,
            rows,
            vocabulary,
            logits,
        } = self;
        write!(
            f,
            "{logits:?} logits: {rows} x {vocabulary}, {}",
            name(*dtype)
        )
    }
}
