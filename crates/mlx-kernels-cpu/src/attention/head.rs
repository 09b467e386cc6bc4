//! One query against the keys and values that it sees.

use crate::exp::exp;
use crate::simd::layout::LANES;
use crate::simd::{Kernel, Simd};

/// Keys whose scores are summed at a time, and vectors of 16 values that are mixed at a time.
const BATCH: usize = 4;

/// Mixes values by the softmax of `query . key`.
///
/// The order of every sum depends on the head's width and the number of keys alone, so that a token
/// gets the same bits alone and among others.
pub(super) struct Head<'a> {
    /// `[width]`, scaled; `width` is a multiple of 16.
    pub query: &'a [f32],
    /// `[keys][width]`.
    pub keys: &'a [f32],
    /// `[keys][width]`.
    pub values: &'a [f32],
    /// `[keys]`: room.
    pub scores: &'a mut [f32],
    /// `[width]`: the result.
    pub mixed: &'a mut [f32],
}

impl Kernel for Head<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(mut self) {
        let (width, keys) = (self.query.len(), self.scores.len());
        let enough = keys * width;
        assert!(width.is_multiple_of(LANES) && self.mixed.len() == width);
        assert!(self.keys.len() >= enough && self.values.len() >= enough);
        // SAFETY: the caller has the instructions enabled; lengths are as asserted.
        unsafe { self.score::<S>() };
        let sum = softmax(self.scores);
        // SAFETY: as above.
        unsafe { self.mix::<S>() };
        for value in self.mixed.iter_mut() {
            *value /= sum;
        }
    }
}

impl Head<'_> {
    /// # Safety
    ///
    /// The instructions of `S` are enabled, and the slices have the lengths that `run` asserts.
    #[inline(always)]
    unsafe fn score<S: Simd>(&mut self) {
        let width = self.query.len();
        let (batches, rest) = self.scores.as_chunks_mut::<BATCH>();
        let mut keys = self.keys.as_ptr();
        // SAFETY: the caller's promise; `keys` goes over as many keys as there are scores.
        unsafe {
            for scores in batches {
                let mut sums = [S::zero(); BATCH];
                for at in (0..width).step_by(LANES) {
                    let query = S::load(self.query.as_ptr().add(at));
                    for i in 0..BATCH {
                        let key = S::load(keys.add(i * width + at));
                        sums[i] = S::mul_add(query, key, sums[i]);
                    }
                }
                *scores = S::sum_four(sums);
                keys = keys.add(BATCH * width);
            }
            for score in rest {
                let mut sum = S::zero();
                for at in (0..width).step_by(LANES) {
                    let query = S::load(self.query.as_ptr().add(at));
                    sum = S::mul_add(query, S::load(keys.add(at)), sum);
                }
                *score = S::sum(sum);
                keys = keys.add(width);
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Self::score`].
    #[inline(always)]
    unsafe fn mix<S: Simd>(&mut self) {
        let width = self.query.len();
        let mut at = 0;
        // SAFETY: the caller's promise; a panel ends at `width` at the latest.
        unsafe {
            while at + BATCH * LANES <= width {
                self.mix_panel::<S, BATCH>(at);
                at += BATCH * LANES;
            }
            while at < width {
                self.mix_panel::<S, 1>(at);
                at += LANES;
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Self::score`]; `at + N * 16` is at most the width.
    #[inline(always)]
    unsafe fn mix_panel<S: Simd, const N: usize>(&mut self, at: usize) {
        let width = self.query.len();
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [S::zero(); N];
            let mut value = self.values.as_ptr().add(at);
            for &weight in self.scores.iter() {
                let weight = S::splat(weight);
                for i in 0..N {
                    sums[i] = S::mul_add(weight, S::load(value.add(i * LANES)), sums[i]);
                }
                value = value.wrapping_add(width);
            }
            for i in 0..N {
                S::store(self.mixed.as_mut_ptr().add(at + i * LANES), sums[i]);
            }
        }
    }
}

/// Replaces scores by their exponentials, the largest score subtracted first; gives their sum.
#[inline(always)]
fn softmax(scores: &mut [f32]) -> f32 {
    let mut largest = [f32::NEG_INFINITY; LANES];
    let (whole, rest) = scores.as_chunks::<LANES>();
    for scores in whole {
        for (largest, &score) in largest.iter_mut().zip(scores) {
            // NaN need not win here: its own exponential is NaN, and so is the sum.
            *largest = if score > *largest { score } else { *largest };
        }
    }
    let largest = largest
        .iter()
        .chain(rest)
        .copied()
        .fold(f32::NEG_INFINITY, f32::max);
    let mut sums = [0.0; LANES];
    let (whole, rest) = scores.as_chunks_mut::<LANES>();
    for scores in whole {
        for (sum, score) in sums.iter_mut().zip(scores) {
            *score = exp(*score - largest);
            *sum += *score;
        }
    }
    for (sum, score) in sums.iter_mut().zip(rest) {
        *score = exp(*score - largest);
        *sum += *score;
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
    }
    sums[0]
}
