//! Many rows: a chunk of a few outputs is decoded into a small tile once, and every row is
//! multiplied with it there.

use std::cell::RefCell;
use std::ops::Range;

use super::activations::{Activations, CHUNK, chunks};
use super::output::Columns;
use super::strip::Strip;
use crate::Level;
use crate::aligned::AlignedFloats;
use crate::simd::layout::{BLOCK, LANES};
use crate::simd::{self, Kernel, Simd};

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

/// All rows of `x` against every output of `strip`, `rows_at_once` at a time.
///
/// A sum is built as in [`super::fused`], operation for operation: between chunks its
/// accumulator rests in memory, which changes nothing.
pub(super) fn multiply(
    level: Level,
    strip: &Strip<'_>,
    x: &Activations,
    rows_at_once: usize,
    workspace: &mut Workspace,
    y: &Columns,
) {
    for first in (0..x.rows()).step_by(rows_at_once) {
        let rows = first..x.rows().min(first + rows_at_once);
        multiply_rows(level, strip, x, rows, workspace, y);
    }
}

/// As [`multiply`], for rows whose accumulators are kept at once.
fn multiply_rows(
    level: Level,
    strip: &Strip<'_>,
    x: &Activations,
    rows: Range<usize>,
    workspace: &mut Workspace,
    y: &Columns,
) {
    let columns = strip.columns;
    // The accumulators of all rows and `COLUMNS` outputs.
    let stride = rows.len() * COLUMNS * LANES;
    workspace.sums.resize(columns.div_ceil(COLUMNS) * stride);
    workspace.tile.resize(TILE * CHUNK);
    for positions in chunks(x.k()) {
        for first in (0..columns).step_by(TILE) {
            let outputs = first..columns.min(first + TILE);
            let (positions, tile) = (positions.clone(), &mut workspace.tile);
            let decoding = Decode {
                strip,
                outputs,
                positions: positions.clone(),
                tile,
            };
            simd::enter(level, decoding);
            let sums = &mut workspace.sums[first / COLUMNS * stride..];
            let (rows, tile) = (rows.clone(), &workspace.tile);
            let outputs = TILE.min(columns - first);
            simd::enter(
                level,
                Multiply {
                    tile,
                    outputs,
                    x,
                    positions,
                    rows,
                    sums,
                },
            );
        }
    }
    workspace.totals.resize(rows.len() * columns, 0.0);
    let (sums, totals) = (&workspace.sums, &mut workspace.totals);
    simd::enter(
        level,
        Fold {
            sums,
            stride,
            columns,
            totals,
        },
    );
    for (row, totals) in rows.zip(workspace.totals.chunks_exact(columns)) {
        y.write(row, 0, totals);
    }
}

/// Decodes a chunk of some outputs into the tile.
struct Decode<'a> {
    strip: &'a Strip<'a>,
    outputs: Range<usize>,
    positions: Range<usize>,
    tile: &'a mut [f32],
}

impl Kernel for Decode<'_> {
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

impl Decode<'_> {
    #[inline(always)]
    unsafe fn with_bits<S: Simd, const BITS: usize>(&mut self) {
        let strip = self.strip;
        let groups = self.positions.len() / strip.group_size;
        let blocks = strip.group_size / BLOCK;
        for (column, tile) in self.outputs.clone().zip(self.tile.chunks_exact_mut(CHUNK)) {
            let word = column * strip.words_per_row + self.positions.start / BLOCK * BITS;
            let first = column * strip.groups_per_row + self.positions.start / strip.group_size;
            let scales = &strip.scales[first..first + groups];
            let biases = &strip.biases[first..first + groups];
            let words = &strip.words[word..];
            let window = strip.has_windows(column + 1);
            let weights = &mut tile[..groups * blocks * BLOCK];
            // SAFETY: the caller has the instructions enabled, and the slices hold `groups` groups
            // of `blocks` blocks, packed and decoded. What is asked for in advance need not exist.
            unsafe {
                let (mut words, mut to) = (words.as_ptr(), weights.as_mut_ptr());
                for (scale, bias) in scales.iter().zip(biases) {
                    let group = S::group::<BITS>(*scale, *bias);
                    for _ in 0..blocks {
                        S::prefetch(words.wrapping_add(TILE * strip.words_per_row));
                        let [even, odd] = S::decode::<BITS>(words, window, &group);
                        S::store(to, even);
                        S::store(to.add(LANES), odd);
                        words = words.add(BITS);
                        to = to.add(BLOCK);
                    }
                }
            }
        }
    }
}

/// Adds to the accumulators of all rows and of a tile's outputs what a chunk gives.
struct Multiply<'a> {
    tile: &'a [f32],
    outputs: usize,
    x: &'a Activations,
    positions: Range<usize>,
    rows: Range<usize>,
    /// What is there is used from the second chunk on.
    sums: &'a mut [f32],
}

impl Kernel for Multiply<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let (width, rows) = (self.positions.len(), self.rows.len());
        // Rows are shared out evenly: seven make four and three where six could be taken, not six
        // and one, since few rows at a time keep the multipliers waiting for loads.
        let steps = rows.div_ceil(S::TILE_ROWS);
        for step in 0..steps {
            let first = rows * step / steps;
            let count = rows * (step + 1) / steps - first;
            let x = self
                .x
                .chunk(&self.positions, self.rows.start + first)
                .as_ptr();
            for index in 0..self.outputs.div_ceil(COLUMNS) {
                let tile = self.tile[index * COLUMNS * CHUNK..][..COLUMNS * CHUNK].as_ptr();
                let at = (index * rows + first) * COLUMNS * LANES;
                let sums = &mut self.sums[at..at + count * COLUMNS * LANES];
                if self.positions.start == 0 {
                    sums.fill(0.0);
                }
                let sums = sums.as_mut_ptr();
                // SAFETY: the caller has the instructions enabled, and `count` rows follow each
                // other in `x` and in `sums`. A group of outputs that is not full has stale values
                // in the tile, and sums that nobody reads.
                unsafe {
                    match count {
                        6 => multiply_registers::<S, 6>(tile, x, width, sums),
                        5 => multiply_registers::<S, 5>(tile, x, width, sums),
                        4 => multiply_registers::<S, 4>(tile, x, width, sums),
                        3 => multiply_registers::<S, 3>(tile, x, width, sums),
                        2 => multiply_registers::<S, 2>(tile, x, width, sums),
                        _ => multiply_registers::<S, 1>(tile, x, width, sums),
                    }
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
unsafe fn multiply_registers<S: Simd, const ROWS: usize>(
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
                let mut values = [held[0][0]; ROWS];
                for r in 0..ROWS {
                    values[r] = S::load_register(x.add(r * width + at));
                }
                for c in 0..COLUMNS {
                    let weights = S::load_register(tile.add(c * CHUNK + at));
                    for r in 0..ROWS {
                        held[r][c] = S::mul_add_registers(weights, values[r], held[r][c]);
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

/// Folds the accumulators, `stride` floats for each `COLUMNS` outputs, into results.
struct Fold<'a> {
    sums: &'a [f32],
    stride: usize,
    columns: usize,
    totals: &'a mut [f32],
}

impl Kernel for Fold<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for (index, column) in (0..self.columns).step_by(COLUMNS).enumerate() {
            let outputs = COLUMNS.min(self.columns - column);
            let sums = self.sums[index * self.stride..(index + 1) * self.stride]
                .as_chunks()
                .0;
            let rows = sums.iter().zip(self.totals.chunks_exact_mut(self.columns));
            for (sums, totals) in rows {
                let sums: &[f32; COLUMNS * LANES] = sums;
                let at = sums.as_ptr();
                // SAFETY: the caller has the instructions enabled; an accumulator has 16 lanes.
                let four = unsafe {
                    S::sum_four([
                        S::load(at),
                        S::load(at.add(LANES)),
                        S::load(at.add(2 * LANES)),
                        S::load(at.add(3 * LANES)),
                    ])
                };
                totals[column..column + outputs].copy_from_slice(&four[..outputs]);
            }
        }
    }
}
