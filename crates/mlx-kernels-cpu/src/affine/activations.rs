//! Activations as the kernels read them: widened, cut into chunks of the inner width, and in the
//! order in which a decoded block has its weights.

use std::cell::Cell;
use std::ops::Range;

use crate::Floats;
use crate::aligned::AlignedFloats;
use crate::simd::layout::{BLOCK, LANES};

/// Inner positions in a chunk. A multiple of every group size; four columns of decoded weights
/// and a few rows of activations of this width fit in a first-level cache together.
pub(super) const CHUNK: usize = 512;

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
                interleave(natural, &mut values[at..at + width]);
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

/// The inner positions of each chunk.
pub(super) fn chunks(k: usize) -> impl Iterator<Item = Range<usize>> {
    (0..k)
        .step_by(CHUNK)
        .map(move |start| start..k.min(start + CHUNK))
}

/// Puts each block's even positions before its odd ones.
fn interleave(natural: &[f32], blocks: &mut [f32]) {
    for (from, to) in natural
        .as_chunks::<BLOCK>()
        .0
        .iter()
        .zip(blocks.as_chunks_mut::<BLOCK>().0)
    {
        for lane in 0..LANES {
            to[lane] = from[2 * lane];
            to[LANES + lane] = from[2 * lane + 1];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_width_once() {
        let ranges: Vec<_> = chunks(CHUNK + 96).collect();
        assert_eq!(ranges, [0..CHUNK, CHUNK..CHUNK + 96]);
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
