//! Few rows: weights are decoded into registers and used there, by every row at once.

use super::activations::{Activations, chunks};
use super::output::Columns;
use super::strip::Strip;
use crate::Level;
use crate::simd::layout::{BLOCK, LANES};
use crate::simd::{self, Kernel, Simd};

/// The most rows that are multiplied this way. From there on a tile, decoded once for many outputs
/// and rows, is faster.
pub(super) const MOST_ROWS: usize = 6;

/// The most outputs in a strip.
pub(super) const MOST_OUTPUTS: usize = 256;

/// Blocks in a group, where they are not known beforehand.
const ANY: usize = 0;

/// Words in a cache line.
const LINE: usize = 16;

/// How far ahead of the decoder weights are asked for at most, in words: what stays in a
/// first-level cache until it is used.
const AHEAD: usize = 4096;

/// How far ahead to ask for weights: at the same place of the outputs that come next, or, where
/// rows are too long for that, a little further on in the row.
fn ahead(words_per_row: usize, columns: usize) -> usize {
    let next = words_per_row * columns;
    if next <= AHEAD { next } else { AHEAD / 16 }
}

/// All rows of `x`, [`MOST_ROWS`] at most, against every output of `strip`, [`MOST_OUTPUTS`] at most.
pub(super) fn multiply(level: Level, strip: &Strip<'_>, x: &Activations, y: &Columns) {
    let (rows, columns) = (x.rows(), strip.columns);
    assert!(
        (1..=MOST_ROWS).contains(&rows) && columns <= MOST_OUTPUTS,
        "{rows} rows, {columns}"
    );
    let mut room = [0.0; MOST_ROWS * MOST_OUTPUTS];
    let totals = &mut room[..rows * columns];
    simd::enter(level, Product { strip, x, totals });
    for (row, totals) in totals.chunks_exact(columns).enumerate() {
        y.write(row, 0, totals);
    }
}

/// All rows against one strip.
struct Product<'a> {
    strip: &'a Strip<'a>,
    x: &'a Activations,
    /// `[row][output]`: the results.
    totals: &'a mut [f32],
}

impl Kernel for Product<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(mut self) {
        // SAFETY: the caller has the instructions enabled.
        unsafe {
            match self.strip.bits {
                2 => self.with_bits::<S, 2>(),
                3 => self.with_bits::<S, 3>(),
                4 => self.with_bits::<S, 4>(),
                5 => self.with_bits::<S, 5>(),
                6 => self.with_bits::<S, 6>(),
                _ => self.with_bits::<S, 8>(),
            }
        }
    }
}

impl Product<'_> {
    /// As many outputs at a time as there are registers for: an accumulator takes one where a
    /// register has 16 lanes, else several.
    #[inline(always)]
    unsafe fn with_bits<S: Simd, const BITS: usize>(&mut self) {
        let narrow = S::REGISTER < LANES;
        // SAFETY: the caller has the instructions enabled, and the group sizes are as said.
        unsafe {
            match (self.x.rows(), narrow) {
                // A single row decodes for itself alone; there it pays to know the group size.
                (1, _) => match self.strip.group_size {
                    32 => self.with_tile::<S, BITS, 1, 4, 1>(0),
                    64 => self.with_tile::<S, BITS, 1, 4, 2>(0),
                    _ => self.with_tile::<S, BITS, 1, 4, 4>(0),
                },
                (2, false) => self.with_tile::<S, BITS, 2, 4, ANY>(0),
                (3, false) => self.with_tile::<S, BITS, 3, 4, ANY>(0),
                (4, false) => self.with_tile::<S, BITS, 4, 4, ANY>(0),
                (5, false) => self.with_tile::<S, BITS, 5, 2, ANY>(0),
                (_, false) => self.with_tile::<S, BITS, 6, 2, ANY>(0),
                (2, true) => self.with_tile::<S, BITS, 2, 2, ANY>(0),
                (3, true) => self.with_tile::<S, BITS, 3, 1, ANY>(0),
                (4, true) => self.with_tile::<S, BITS, 4, 1, ANY>(0),
                (5, true) => self.with_tile::<S, BITS, 5, 1, ANY>(0),
                (_, true) => {
                    self.with_tile::<S, BITS, 3, 1, ANY>(0);
                    self.with_tile::<S, BITS, 3, 1, ANY>(3);
                }
            }
        }
    }

    /// `ROWS` rows from `first` on, `OUTPUTS` outputs at a time, and what outputs are left one by
    /// one.
    #[inline(always)]
    unsafe fn with_tile<
        S: Simd,
        const BITS: usize,
        const ROWS: usize,
        const OUTPUTS: usize,
        const BLOCKS: usize,
    >(
        &mut self,
        first: usize,
    ) {
        let columns = self.strip.columns;
        let whole = columns / OUTPUTS * OUTPUTS;
        // SAFETY: the caller has the instructions enabled; the strip has these outputs, and `x`
        // these rows.
        unsafe {
            for column in (0..whole).step_by(OUTPUTS) {
                let sums =
                    sums::<S, BITS, ROWS, OUTPUTS, BLOCKS>(self.strip, column, self.x, first);
                for (row, sums) in sums.iter().enumerate() {
                    let at = (first + row) * columns + column;
                    self.totals[at..at + OUTPUTS].copy_from_slice(sums);
                }
            }
            for column in whole..columns {
                for row in first..first + ROWS {
                    let [[sum]] = sums::<S, BITS, 1, 1, ANY>(self.strip, column, self.x, row);
                    self.totals[row * columns + column] = sum;
                }
            }
        }
    }
}

/// The results of `ROWS` rows from `first_row` on and `OUTPUTS` outputs from `column` on.
///
/// Each sum is one accumulator of 16 lanes that takes the blocks in ascending order, even
/// positions before odd ones, folded at the end: the order that [`super::tiled`] keeps too.
///
/// # Safety
///
/// The instructions of `S` are enabled. The strip has the outputs, and `x` the rows and the strip's
/// inner width. A group has `BLOCKS` blocks, if that is not [`ANY`].
#[inline(always)]
unsafe fn sums<
    S: Simd,
    const BITS: usize,
    const ROWS: usize,
    const OUTPUTS: usize,
    const BLOCKS: usize,
>(
    strip: &Strip<'_>,
    column: usize,
    x: &Activations,
    first_row: usize,
) -> [[f32; OUTPUTS]; ROWS] {
    // SAFETY: pointers stay within the outputs' words and groups and the rows' chunks, all of
    // which cover the inner width that the loops run over; past the words only where
    // `has_windows` vouches for more.
    unsafe {
        let mut sums = [[S::zero(); OUTPUTS]; ROWS];
        let mut words = strip.words.as_ptr().add(column * strip.words_per_row);
        let mut group = column * strip.groups_per_row;
        let blocks = if BLOCKS == ANY {
            strip.group_size / BLOCK
        } else {
            BLOCKS
        };
        let ahead = ahead(strip.words_per_row, OUTPUTS);
        let window = strip.has_windows(column + OUTPUTS);
        for positions in chunks(x.k()) {
            let mut at = x.chunk(&positions, first_row).as_ptr();
            let width = positions.len();
            for _ in 0..width / (blocks * BLOCK) {
                let mut groups = [S::group::<BITS>(0.0, 0.0); OUTPUTS];
                for c in 0..OUTPUTS {
                    let index = group + c * strip.groups_per_row;
                    let scale = *strip.scales.get_unchecked(index);
                    groups[c] = S::group::<BITS>(scale, *strip.biases.get_unchecked(index));
                    let next = words.wrapping_add(c * strip.words_per_row + ahead);
                    for line in (0..blocks * BITS).step_by(LINE) {
                        S::prefetch(next.wrapping_add(line));
                    }
                }
                for _ in 0..blocks {
                    for c in 0..OUTPUTS {
                        let block = words.add(c * strip.words_per_row);
                        let [even, odd] = S::decode::<BITS>(block, window, &groups[c]);
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
        let mut totals = [[0.0; OUTPUTS]; ROWS];
        for r in 0..ROWS {
            if OUTPUTS == 4 {
                let four = S::sum_four([sums[r][0], sums[r][1], sums[r][2], sums[r][3]]);
                totals[r].copy_from_slice(&four);
            } else {
                for c in 0..OUTPUTS {
                    totals[r][c] = S::sum(sums[r][c]);
                }
            }
        }
        totals
    }
}
