//! Activations as the kernels read them: widened, cut into chunks of the inner width, and in the
//! order in which a decoded block has its weights.

use std::cell::Cell;
use std::ops::Range;

use crate::aligned::AlignedFloats;
use crate::simd::layout::{BLOCK, LANES};
use crate::simd::{self, Kernel, Simd};
use crate::{Floats, Level};

/// Inner positions in a chunk, at most: a tile of decoded weights and a few rows of activations of
/// this width share a first-level cache.
pub(super) const CHUNK: usize = 640;

/// Every group size divides this.
const LARGEST_GROUP: usize = 128;

thread_local! {
    /// The last buffer, kept to save the pages of the next one.
    static SPARE: Cell<AlignedFloats> = Cell::default();
}

/// `x` in `f32`, exact: chunk by chunk, within it row by row, within that block by block, and in
/// a block the 16 even positions before the 16 odd ones.
#[derive(Debug)]
pub(super) struct Activations {
    values: AlignedFloats,
    rows: usize,
    k: usize,
}

impl Activations {
    /// Copies `rows` rows of `k` values, `k` a multiple of a block.
    pub(super) fn new(x: Floats<'_>, rows: usize, k: usize) -> Self {
        let mut values = SPARE.take();
        values.resize(rows * k);
        let mut natural = [0.0; CHUNK];
        for positions in chunks(k) {
            let width = positions.len();
            for row in 0..rows {
                let natural = &mut natural[..width];
                x.widen_into(row * k + positions.start, natural);
                let at = positions.start * rows + row * width;
                let blocks = &mut values[at..at + width];
                simd::enter(Level::best(), Interleave { natural, blocks });
            }
        }
        Self { values, rows, k }
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The inner width.
    pub(super) fn k(&self) -> usize {
        self.k
    }

    /// The chunk at `positions`, one of [`chunks`], of `row` and the rows after it.
    pub(super) fn chunk(&self, positions: &Range<usize>, row: usize) -> &[f32] {
        let at = positions.start * self.rows + row * positions.len();
        &self.values[at..positions.end * self.rows]
    }
}

impl Drop for Activations {
    fn drop(&mut self) {
        SPARE.set(std::mem::take(&mut self.values));
    }
}

/// The inner positions of each chunk: as few as can be, nearly equal, each of whole groups. Short
/// ones would spend their time on fetching and storing accumulators.
pub(super) fn chunks(k: usize) -> impl Iterator<Item = Range<usize>> {
    let count = k.div_ceil(CHUNK);
    let width = k.div_ceil(count.max(1)).next_multiple_of(LARGEST_GROUP);
    (0..k)
        .step_by(width)
        .map(move |start| start..k.min(start + width))
}

/// Puts each block's even positions before its odd ones.
struct Interleave<'a> {
    natural: &'a [f32],
    blocks: &'a mut [f32],
}

impl Kernel for Interleave<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let from = self.natural.as_chunks::<BLOCK>().0;
        for (from, to) in from.iter().zip(self.blocks.as_chunks_mut::<BLOCK>().0) {
            for lane in 0..LANES {
                to[lane] = from[2 * lane];
                to[LANES + lane] = from[2 * lane + 1];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_width_once_and_hold_whole_groups() {
        for (k, expected) in [
            (32, &[32][..]),
            (576, &[576]),
            (CHUNK, &[CHUNK]),
            (CHUNK + 32, &[384, 672]),
            (1536, &[512, 1024, 1536]),
        ] {
            let ends: Vec<usize> = chunks(k).map(|positions| positions.end).collect();
            assert_eq!(ends, expected);
        }
        for k in (32..20_000).step_by(32) {
            let mut end = 0;
            for positions in chunks(k) {
                assert!(positions.start == end && (1..=CHUNK).contains(&positions.len()));
                assert!(positions.start.is_multiple_of(LARGEST_GROUP));
                end = positions.end;
            }
            assert_eq!(end, k);
        }
    }

    #[test]
    fn every_value_is_where_its_weight_will_be() {
        let (rows, k) = (3, CHUNK + 64);
        let x: Vec<f32> = (0..rows * k).map(|i| i as f32).collect();
        let activations = Activations::new(Floats::F32(&x), rows, k);
        for positions in chunks(k) {
            for row in 0..rows {
                let chunk = activations.chunk(&positions, row);
                for (i, position) in positions.clone().enumerate() {
                    let (block, within) = (i / BLOCK, i % BLOCK);
                    let at = BLOCK * block + LANES * (within % 2) + within / 2;
                    assert_eq!(chunk[at].to_bits(), x[row * k + position].to_bits());
                }
            }
        }
    }
}
