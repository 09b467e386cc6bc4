//! The logarithm of the sum of exponentials.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{BLOCK, BLOCKS_PER_PART, EFFORT};
use crate::exp::exp;
use crate::simd::{self, Kernel, Simd};
use crate::{Execution, Floats, Level, threads};

/// Independent maxima and sums.
const LANES: usize = 16;

/// `log(sum(exp(row)))` of each of `rows` rows of `vocabulary` logits, in `f32`: the largest logit
/// where that is infinite, NaN of a row with NaN.
pub(super) fn logsumexp(logits: Floats<'_>, rows: usize, vocabulary: usize) -> Vec<f32> {
    let part_size = BLOCK * BLOCKS_PER_PART;
    let parts_per_row = vocabulary.div_ceil(part_size);
    let partial: Vec<AtomicU64> = (0..rows * parts_per_row)
        .map(|_| AtomicU64::new(0))
        .collect();
    let (threads, effort) = (Execution::default().threads, EFFORT * logits.len());
    threads::share(partial.len(), threads, effort, &|part| {
        let (row, first) = (part / parts_per_row, part % parts_per_row * part_size);
        let count = part_size.min(vocabulary - first);
        let mut values = vec![0.0; count];
        logits.widen_into(row * vocabulary + first, &mut values);
        let (mut largest, mut sum) = (0.0, 0.0);
        let exponentials = Exponentials {
            values: &mut values,
            largest: &mut largest,
            sum: &mut sum,
        };
        simd::enter(Level::best(), exponentials);
        partial[part].store(pack(largest, sum), Ordering::Relaxed);
    });
    partial
        .chunks(parts_per_row)
        .map(|parts| {
            joined(
                parts
                    .iter()
                    .map(|part| unpack(part.load(Ordering::Relaxed))),
            )
        })
        .collect()
}

fn pack(largest: f32, sum: f32) -> u64 {
    u64::from(largest.to_bits()) << 32 | u64::from(sum.to_bits())
}

fn unpack(bits: u64) -> (f32, f32) {
    (
        f32::from_bits((bits >> 32) as u32),
        f32::from_bits(bits as u32),
    )
}

/// The logarithm over parts that have a largest value and a sum relative to it.
fn joined(parts: impl Iterator<Item = (f32, f32)> + Clone) -> f32 {
    let largest = parts
        .clone()
        .map(|(largest, _)| largest)
        .fold(f32::NEG_INFINITY, f32::max);
    if parts.clone().any(|(_, sum)| sum.is_nan()) {
        return f32::NAN;
    }
    if largest.is_infinite() {
        return largest;
    }
    let shifted = |(part, sum)| f64::from(sum) * (f64::from(part) - f64::from(largest)).exp();
    (f64::from(largest) + parts.map(shifted).sum::<f64>().ln()) as f32
}

/// The largest value, and the sum of the exponentials of the differences from it: NaN if a value is
/// NaN, 1 if the largest is infinite.
struct Exponentials<'a> {
    values: &'a mut [f32],
    largest: &'a mut f32,
    sum: &'a mut f32,
}

impl Kernel for Exponentials<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let (whole, rest) = self.values.as_chunks_mut::<LANES>();
        let mut tops = [f32::NEG_INFINITY; LANES];
        for values in &*whole {
            for (top, &value) in tops.iter_mut().zip(values) {
                *top = if value > *top { value } else { *top };
            }
        }
        let top = tops
            .iter()
            .chain(&*rest)
            .copied()
            .fold(f32::NEG_INFINITY, f32::max);
        *self.largest = top;
        if top.is_infinite() {
            // Differences of infinities would be NaN as well.
            let mut values = whole.as_flattened().iter().chain(&*rest);
            *self.sum = if values.any(|value| value.is_nan()) {
                f32::NAN
            } else {
                1.0
            };
            return;
        }
        let mut sums = [0.0; LANES];
        for values in whole {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += exp(*value - top);
            }
        }
        for (sum, value) in sums.iter_mut().zip(rest) {
            *sum += exp(*value - top);
        }
        *self.sum = sums.iter().sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(row: &[f32]) -> f32 {
        logsumexp(row.into(), 1, row.len())[0]
    }

    #[test]
    fn equals_float64_at_the_edges_of_lanes_and_parts() {
        for count in [1, 2, 15, 16, 17, 255, 16_383, 16_384, 16_385, 40_000] {
            let row: Vec<f32> = (0..count)
                .map(|i| ((i * 7919) % 1013) as f32 / 50.0 - 15.0)
                .collect();
            let wide = row.iter().map(|&x| f64::from(x));
            let expected = wide.map(f64::exp).sum::<f64>().ln();
            assert!((f64::from(of(&row)) - expected).abs() < 2e-6, "{count}");
        }
    }

    #[test]
    fn rows_are_separate_and_large_logits_do_not_overflow() {
        let logits = [1000.0, 1000.0, -1000.0, -1000.0_f32];
        let two = std::f32::consts::LN_2;
        assert_eq!(
            logsumexp((&logits[..]).into(), 2, 2),
            [1000.0 + two, two - 1000.0]
        );
    }

    #[test]
    fn infinities_and_nan_are_themselves() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        assert_eq!(of(&[1.0, inf, -inf]), inf);
        assert_eq!(of(&[-inf; 20]), -inf);
        assert_eq!(of(&[-inf, 3.0]), 3.0);
        for row in [&[nan][..], &[1.0, nan], &[inf, nan], &[-inf, nan, inf]] {
            assert!(of(row).is_nan(), "{row:?}");
        }
        let mut long = vec![0.5; 40_000];
        long[39_999] = nan;
        assert!(of(&long).is_nan());
    }
}
