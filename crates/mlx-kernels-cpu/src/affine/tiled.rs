//! Many rows: a chunk of a few outputs is decoded into a small tile once, and every row is
//! multiplied with it there.

use std::ops::Range;

use super::activations::{Activations, CHUNK, chunks};
use super::strip::Strip;
use crate::simd::Simd;
use crate::simd::layout::{BLOCK, LANES};

/// Outputs in a tile.
pub(super) const TILE: usize = 4;

/// A chunk of `TILE` outputs, decoded: output by output, in the order of [`Activations`].
type Tile = [[f32; CHUNK]; TILE];

/// The accumulators of every row of a block and every output of a strip, and the tile.
#[derive(Debug)]
pub(super) struct Workspace {
    /// `[output / TILE][row][output % TILE][lane]`.
    sums: Vec<f32>,
    tile: Box<Tile>,
}

impl Workspace {
    /// Room for `rows` rows and `columns` outputs.
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        let tiles = columns.div_ceil(TILE);
        Self {
            sums: vec![0.0; tiles * rows * TILE * LANES],
            tile: Box::new([[0.0; CHUNK]; TILE]),
        }
    }
}

/// `rows` of `x` against every output of `strip`; `emit(row, sums)` gets each row's results.
///
/// A sum is built as in [`super::fused`], operation for operation: between chunks its
/// accumulator rests in memory, which changes nothing.
///
/// # Safety
///
/// The instructions of `S` are enabled. `x` has the rows and the strip's inner width, and
/// `workspace` room for the rows and the outputs.
#[inline(always)]
pub(super) unsafe fn strip_sums<S: Simd, const BITS: usize>(
    strip: &Strip<'_>,
    x: &Activations,
    rows: Range<usize>,
    workspace: &mut Workspace,
    totals: &mut [f32],
) {
    let columns = strip.columns();
    let stride = rows.len() * TILE * LANES;
    workspace.sums.fill(0.0);
    for positions in chunks(x.k()) {
        let width = positions.len();
        for (index, column) in (0..columns).step_by(TILE).enumerate() {
            let outputs = TILE.min(columns - column);
            let sums = &mut workspace.sums[index * stride..(index + 1) * stride];
            for c in 0..outputs {
                // SAFETY: `column + c` is an output of the strip, and `positions` one of its chunks.
                unsafe { decode::<S, BITS>(strip, column + c, &positions, &mut workspace.tile[c]) };
            }
            let mut row = rows.start;
            while row < rows.end {
                let count = S::TILE_ROWS.min(rows.end - row);
                let x = x.chunk(&positions, row).as_ptr();
                let sums = sums[(row - rows.start) * TILE * LANES..].as_mut_ptr();
                let tile = workspace.tile.as_ptr().cast();
                // SAFETY: `count` rows follow each other in `x` and in `sums`, and the tile's
                // first `width` positions are decoded (outputs past the strip's are stale, and
                // their sums unused).
                unsafe {
                    match count {
                        6 => multiply::<S, 6>(tile, x, width, sums),
                        5 => multiply::<S, 5>(tile, x, width, sums),
                        4 => multiply::<S, 4>(tile, x, width, sums),
                        3 => multiply::<S, 3>(tile, x, width, sums),
                        2 => multiply::<S, 2>(tile, x, width, sums),
                        _ => multiply::<S, 1>(tile, x, width, sums),
                    }
                }
                row += count;
            }
        }
    }
    for row in 0..rows.len() {
        for column in 0..columns {
            let (index, c) = (column / TILE, column % TILE);
            let at = index * stride + (row * TILE + c) * LANES;
            // SAFETY: an accumulator has 16 lanes.
            let sum = unsafe { S::sum(S::load(workspace.sums[at..at + LANES].as_ptr())) };
            totals[row * columns + column] = sum;
        }
    }
}

/// Decodes `positions` of output `column`.
///
/// # Safety
///
/// The instructions of `S` are enabled, and the strip has the output and the positions.
#[inline(always)]
unsafe fn decode<S: Simd, const BITS: usize>(
    strip: &Strip<'_>,
    column: usize,
    positions: &Range<usize>,
    tile: &mut [f32; CHUNK],
) {
    let first_word = column * strip.words_per_row + positions.start / BLOCK * BITS;
    let first_group = column * strip.groups_per_row + positions.start / strip.group_size;
    // SAFETY: the strip has these words and groups, and a chunk fits in the tile.
    unsafe {
        let mut words = strip.words.as_ptr().add(first_word);
        let mut to = tile.as_mut_ptr();
        for group in first_group..first_group + positions.len() / strip.group_size {
            let scale = *strip.scales.get_unchecked(group);
            let group = S::group::<BITS>(scale, *strip.biases.get_unchecked(group));
            for _ in 0..strip.group_size / BLOCK {
                let [even, odd] = S::decode::<BITS>(words, &group);
                S::store(to, even);
                S::store(to.add(LANES), odd);
                words = words.add(BITS);
                to = to.add(BLOCK);
            }
        }
    }
}

/// Adds to the accumulators of `ROWS` rows and `TILE` outputs what `width` positions give.
///
/// Lanes never meet here, so that a register narrower than an accumulator takes a part of the
/// lanes through all positions before the next part.
///
/// # Safety
///
/// The instructions of `S` are enabled. `tile` is a [`Tile`]; `x` has `ROWS` rows of `width`
/// values, and `sums` `ROWS * TILE` accumulators.
#[inline(always)]
unsafe fn multiply<S: Simd, const ROWS: usize>(
    tile: *const f32,
    x: *const f32,
    width: usize,
    sums: *mut f32,
) {
    // SAFETY: as the caller vouches.
    unsafe {
        for lane in (0..LANES).step_by(S::REGISTER) {
            let (tile, x, sums) = (tile.add(lane), x.add(lane), sums.add(lane));
            let mut held = [[S::load_register(sums); TILE]; ROWS];
            for r in 0..ROWS {
                for c in 0..TILE {
                    held[r][c] = S::load_register(sums.add((r * TILE + c) * LANES));
                }
            }
            for at in (0..width).step_by(LANES) {
                let mut w = [held[0][0]; TILE];
                for c in 0..TILE {
                    w[c] = S::load_register(tile.add(c * CHUNK + at));
                }
                for r in 0..ROWS {
                    let x = S::load_register(x.add(r * width + at));
                    for c in 0..TILE {
                        held[r][c] = S::mul_add_registers(w[c], x, held[r][c]);
                    }
                }
            }
            for r in 0..ROWS {
                for c in 0..TILE {
                    S::store_register(sums.add((r * TILE + c) * LANES), held[r][c]);
                }
            }
        }
    }
}
