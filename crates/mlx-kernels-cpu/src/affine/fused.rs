//! Few rows: weights are decoded into registers and used there, by every row at once.

use super::activations::{Activations, chunks};
use super::strip::Strip;
use crate::simd::Simd;
use crate::simd::layout::{BLOCK, LANES};

/// How far ahead of the decoder weights are asked for, in words.
const AHEAD: usize = 256;

/// `ROWS` rows from `first_row` on against `COLUMNS` outputs of `strip` from `column` on.
///
/// Each sum is one accumulator of 16 lanes that takes the blocks in ascending order, even
/// positions before odd ones, folded at the end: the order that [`super::tiled`] keeps too.
///
/// # Safety
///
/// The instructions of `S` are enabled. `strip` has the outputs, and `x` the rows and the strip's
/// inner width.
#[inline(always)]
pub(super) unsafe fn sums<S: Simd, const BITS: usize, const ROWS: usize, const COLUMNS: usize>(
    strip: &Strip<'_>,
    column: usize,
    x: &Activations,
    first_row: usize,
) -> [[f32; COLUMNS]; ROWS] {
    // SAFETY: pointers stay within the output's words and groups and the rows' chunks, all of
    // which cover the inner width that the loops run over.
    unsafe {
        let mut sums = [[S::zero(); COLUMNS]; ROWS];
        let mut words = strip.words.as_ptr().add(column * strip.words_per_row);
        let mut group = column * strip.groups_per_row;
        let blocks = strip.group_size / BLOCK;
        for positions in chunks(x.k()) {
            let mut at = x.chunk(&positions, first_row).as_ptr();
            let width = positions.len();
            for _ in 0..width / strip.group_size {
                let mut groups = [S::group::<BITS>(0.0, 0.0); COLUMNS];
                for c in 0..COLUMNS {
                    let index = group + c * strip.groups_per_row;
                    let scale = *strip.scales.get_unchecked(index);
                    groups[c] = S::group::<BITS>(scale, *strip.biases.get_unchecked(index));
                }
                for _ in 0..blocks {
                    for c in 0..COLUMNS {
                        let block = words.add(c * strip.words_per_row);
                        S::prefetch(block.wrapping_add(AHEAD));
                        let [even, odd] = S::decode::<BITS>(block, &groups[c]);
                        for r in 0..ROWS {
                            let x = at.add(r * width);
                            sums[r][c] = S::mul_add(even, S::load(x), sums[r][c]);
                            sums[r][c] = S::mul_add(odd, S::load(x.add(LANES)), sums[r][c]);
                        }
                    }
                    words = words.add(BITS);
                    at = at.add(BLOCK);
                }
                group += 1;
            }
        }
        let mut totals = [[0.0; COLUMNS]; ROWS];
        for r in 0..ROWS {
            for c in 0..COLUMNS {
                totals[r][c] = S::sum(sums[r][c]);
            }
        }
        totals
    }
}
