//! Many rows: a chunk of a few outputs is decoded into a small tile once, and every row is
//! multiplied with it there.

use std::cell::RefCell;
use std::ops::Range;

use super::activations::{Activations, CHUNK, chunks};
use super::strip::Strip;
use crate::aligned::AlignedFloats;
use crate::simd::Simd;
use crate::simd::layout::{BLOCK, LANES};

/// Outputs that are multiplied at a time: with some rows as many accumulators as fit in registers.
const COLUMNS: usize = 4;

/// Outputs in a tile. With a chunk of six rows a tile fits in a first-level cache of 32 KiB, and
/// the rows, which come from the second level, are used twice.
const TILE: usize = 2 * COLUMNS;

/// The accumulators of every row of a block and every output of a strip, and the tile.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    /// `[output / COLUMNS][row][output % COLUMNS][lane]`.
    sums: AlignedFloats,
    /// `[output][position]`, positions in the order of [`Activations`].
    tile: AlignedFloats,
    /// `[row][output]`: the results.
    totals: Vec<f32>,
}

/// Lends this thread's workspace, which is kept to save its allocation for every strip.
pub(super) fn with_workspace(body: impl FnOnce(&mut Workspace)) {
    thread_local! {
        static WORKSPACE: RefCell<Workspace> = RefCell::default();
    }
    WORKSPACE.with_borrow_mut(body);
}

/// `rows` of `x` against every output of `strip`: `[row][output]`.
///
/// A sum is built as in [`super::fused`], operation for operation: between chunks its
/// accumulator rests in memory, which changes nothing.
///
/// # Safety
///
/// The instructions of `S` are enabled. `x` has the rows and the strip's inner width.
#[inline(always)]
pub(super) unsafe fn strip_sums<'a, S: Simd, const BITS: usize>(
    strip: &Strip<'_>,
    x: &Activations,
    rows: Range<usize>,
    workspace: &'a mut Workspace,
) -> &'a [f32] {
    let columns = strip.columns();
    // The accumulators of all rows and `COLUMNS` outputs.
    let stride = rows.len() * COLUMNS * LANES;
    workspace.sums.resize(columns.div_ceil(COLUMNS) * stride);
    workspace.sums.fill(0.0);
    workspace.tile.resize(TILE * CHUNK);
    for positions in chunks(x.k()) {
        for first in (0..columns).step_by(TILE) {
            let outputs = TILE.min(columns - first);
            for (c, tile) in workspace
                .tile
                .chunks_exact_mut(CHUNK)
                .take(outputs)
                .enumerate()
            {
                // SAFETY: `first + c` is an output of the strip, `positions` one of its chunks.
                unsafe { decode::<S, BITS>(strip, first + c, &positions, tile) };
            }
            let sums = &mut workspace.sums[first / COLUMNS * stride..];
            // SAFETY: the outputs' accumulators begin there, and the positions are decoded.
            unsafe { multiply::<S>(&workspace.tile, outputs, x, &positions, &rows, sums) };
        }
    }
    workspace.totals.resize(rows.len() * columns, 0.0);
    for (row, totals) in workspace.totals.chunks_exact_mut(columns).enumerate() {
        for (column, total) in totals.iter_mut().enumerate() {
            let (index, c) = (column / COLUMNS, column % COLUMNS);
            let at = index * stride + (row * COLUMNS + c) * LANES;
            // SAFETY: an accumulator has 16 lanes.
            *total = unsafe { S::sum(S::load(workspace.sums[at..at + LANES].as_ptr())) };
        }
    }
    &workspace.totals
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
    tile: &mut [f32],
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

/// All rows against a tile of `outputs` outputs, a few rows at a time.
///
/// # Safety
///
/// The instructions of `S` are enabled. The tile's first `outputs` outputs are decoded at
/// `positions`, and `sums` begins with their accumulators.
#[inline(always)]
unsafe fn multiply<S: Simd>(
    tile: &[f32],
    outputs: usize,
    x: &Activations,
    positions: &Range<usize>,
    rows: &Range<usize>,
    sums: &mut [f32],
) {
    let width = positions.len();
    // Rows are shared out evenly: seven make four and three where six could be taken, not six and
    // one, since few rows at a time keep the multipliers waiting for loads.
    let steps = rows.len().div_ceil(S::TILE_ROWS);
    for step in 0..steps {
        let first = rows.len() * step / steps;
        let count = rows.len() * (step + 1) / steps - first;
        let x = x.chunk(positions, rows.start + first).as_ptr();
        for index in 0..outputs.div_ceil(COLUMNS) {
            let tile = tile[index * COLUMNS * CHUNK..].as_ptr();
            let sums = sums[(index * rows.len() + first) * COLUMNS * LANES..].as_mut_ptr();
            // SAFETY: `count` rows follow each other in `x` and in `sums`. A group of outputs that
            // is not full has stale values in the tile, and sums that nobody reads.
            unsafe {
                match count {
                    6 => multiply_rows::<S, 6>(tile, x, width, sums),
                    5 => multiply_rows::<S, 5>(tile, x, width, sums),
                    4 => multiply_rows::<S, 4>(tile, x, width, sums),
                    3 => multiply_rows::<S, 3>(tile, x, width, sums),
                    2 => multiply_rows::<S, 2>(tile, x, width, sums),
                    _ => multiply_rows::<S, 1>(tile, x, width, sums),
                }
            }
        }
    }
}

/// Adds to the accumulators of `ROWS` rows and `COLUMNS` outputs what `width` positions give.
///
/// Lanes never meet here, so that a register narrower than an accumulator takes a part of the
/// lanes through all positions before the next part.
///
/// # Safety
///
/// The instructions of `S` are enabled. `tile` holds `COLUMNS` outputs of `CHUNK` values, `x`
/// `ROWS` rows of `width` values, and `sums` `ROWS * COLUMNS` accumulators.
#[inline(always)]
unsafe fn multiply_rows<S: Simd, const ROWS: usize>(
    tile: *const f32,
    x: *const f32,
    width: usize,
    sums: *mut f32,
) {
    // SAFETY: as the caller vouches.
    unsafe {
        for lane in (0..LANES).step_by(S::REGISTER) {
            let (tile, x, sums) = (tile.add(lane), x.add(lane), sums.add(lane));
            let mut held = [[S::load_register(sums); COLUMNS]; ROWS];
            for r in 0..ROWS {
                for c in 0..COLUMNS {
                    held[r][c] = S::load_register(sums.add((r * COLUMNS + c) * LANES));
                }
            }
            for at in (0..width).step_by(LANES) {
                let mut w = [held[0][0]; COLUMNS];
                for c in 0..COLUMNS {
                    w[c] = S::load_register(tile.add(c * CHUNK + at));
                }
                for r in 0..ROWS {
                    let x = S::load_register(x.add(r * width + at));
                    for c in 0..COLUMNS {
                        held[r][c] = S::mul_add_registers(w[c], x, held[r][c]);
                    }
                }
            }
            for r in 0..ROWS {
                for c in 0..COLUMNS {
                    S::store_register(sums.add((r * COLUMNS + c) * LANES), held[r][c]);
                }
            }
        }
    }
}
