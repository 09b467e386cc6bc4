//! Vocabulary masks.

use std::fmt;

use mlx_kernels::ops;
use mlx_rs::{Array, Dtype};

use super::floats::{self, name, round};
use super::random::Random;
use super::{Failure, Findings, same_bits};

/// One check at one vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Element type of the logits.
    pub dtype: Dtype,
    /// Rows of logits.
    pub rows: i32,
    /// Logits of a row.
    pub vocabulary: i32,
}

impl Case {
    /// Compares with the definition, in plain Rust, under masks of all lengths: whole, too long,
    /// too short; one for all rows and one for each; all ones and all zeros.
    pub(super) fn run(&self) -> Result<Findings, Failure> {
        let whole = self.vocabulary.unsigned_abs().div_ceil(32) as usize;
        let mut random = Random::new(self.vocabulary as u64);
        let mut words =
            |count: usize| -> Vec<u32> { (0..count).map(|_| random.bits() as u32).collect() };
        let mut findings = Findings::default();
        for mask in [
            words(whole),
            words(whole + 3),
            words(whole.div_ceil(2)),
            vec![u32::MAX; whole],
            vec![0; whole],
        ] {
            findings = findings.and(self.compare(&mask, 1)?);
        }
        let masks = words(whole * self.rows as usize);
        Ok(findings.and(self.compare(&masks, self.rows)?))
    }

    fn compare(&self, words: &[u32], masks: i32) -> Result<Findings, Failure> {
        let values = self.values();
        let logits = floats::array(&values, &[self.rows, self.vocabulary], self.dtype);
        let each = words.len() / masks as usize;
        let bits = Array::from_slice(words, &[masks, each as i32]);
        let masked = floats::values(&ops::apply_token_bitmask(&logits, &bits)?)?;
        let expected: Vec<f32> = values
            .iter()
            .enumerate()
            .map(|(at, logit)| {
                let (row, id) = (at / self.vocabulary as usize, at % self.vocabulary as usize);
                let mask = &words[if masks == 1 { 0 } else { row * each }..][..each];
                let word = mask.get(id / 32).copied().unwrap_or(0);
                let allowed = word >> (id % 32) & 1 == 1;
                logit + if allowed { 0.0 } else { f32::NEG_INFINITY }
            })
            .collect();
        same_bits("logits plus the mask", &masked, &expected)
    }

    /// Normally distributed, with every special value in the first row that has room for them.
    fn values(&self) -> Vec<f32> {
        let count = (self.rows * self.vocabulary) as usize;
        let mut values = Random::new(count as u64).normals(count);
        let specials = [-0.0, 0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        for (value, special) in values.iter_mut().zip(specials.into_iter().cycle().take(20)) {
            *value = special;
        }
        values
            .into_iter()
            .map(|value| round(value, self.dtype))
            .collect()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            dtype,
            rows,
            vocabulary,
        } = self;
        write!(f, "{rows} x {vocabulary}, {}", name(*dtype))
    }
}
