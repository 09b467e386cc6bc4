//! Axis 1: every output is the product of one stored row with the activations.
//!
//! A strip of outputs is decoded four rows and one block at a time into a panel that stays in the first-level cache;
//! the panel multiplies all rows of activations. Each result has 16 partial sums, over ascending positions and blocks.

use std::cell::RefCell;
use std::ops::Range;

use super::codes::Codes;
use super::lanes::{self, Kernel, Lanes};
use super::{GROUP, SHARED_ROWS};
use crate::aligned::AlignedFloats;
use crate::float::SharedFloats;
use crate::{Execution, Floats, threads};

/// Stored rows decoded into one panel.
const PANEL: usize = 4;

/// Outputs of one part of the work, at most; a multiple of the panel.
const STRIP: usize = 64;

pub(super) fn multiply(
    execution: Execution,
    codes: &Codes<'_>,
    rows: usize,
    x: Floats<'_>,
    factors: &[f32],
    y: SharedFloats,
) {
    let (outputs, inputs) = (codes.geometry.rows(), codes.geometry.cols());
    let x = in_bit_order(x, inputs, codes.geometry.format().block());
    let share = outputs
        .div_ceil(4 * execution.threads.get())
        .next_multiple_of(PANEL);
    let strip = share.clamp(PANEL, STRIP);
    let effort = (rows + 4).saturating_mul(codes.geometry.weights());
    threads::share(
        outputs.div_ceil(strip),
        execution.threads,
        effort,
        &|part| {
            let outputs = part * strip..outputs.min((part + 1) * strip);
            WORKSPACE.with_borrow_mut(|workspace| {
                let reduce = Reduce {
                    codes,
                    x: &x,
                    rows,
                    factors,
                    outputs,
                    y,
                };
                lanes::enter(execution.level, (reduce, workspace));
            });
        },
    );
}

/// The activations as f32, those of each block in reverse.
fn in_bit_order(x: Floats<'_>, inputs: usize, block: usize) -> AlignedFloats {
    let mut ordered = AlignedFloats::default();
    ordered.resize(x.len());
    if inputs > 0 {
        x.widen_into(0, &mut ordered);
        ordered.chunks_exact_mut(block).for_each(<[f32]>::reverse);
    }
    ordered
}

/// The outputs of one strip, for all rows.
struct Reduce<'a> {
    codes: &'a Codes<'a>,
    x: &'a [f32],
    rows: usize,
    factors: &'a [f32],
    outputs: Range<usize>,
    y: SharedFloats,
}

#[derive(Default)]
struct Workspace {
    /// `[PANEL, block]` decoded weights.
    panel: AlignedFloats,
    /// `[rows, PANEL, 16]` partial sums.
    sums: AlignedFloats,
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

// The workspace comes from outside: a closure here would be a function without the instructions.
impl Kernel for (Reduce<'_>, &mut Workspace) {
    #[inline(always)]
    unsafe fn run<S: Lanes>(self) {
        let (reduce, workspace) = self;
        for first in (0..reduce.rows).step_by(SHARED_ROWS) {
            let rows = first..reduce.rows.min(first + SHARED_ROWS);
            for output in reduce.outputs.clone().step_by(PANEL) {
                let outputs = output..reduce.outputs.end.min(output + PANEL);
                // SAFETY: the instructions are enabled; rows and outputs are the problem's.
                unsafe { reduce.panel::<S>(workspace, &rows, &outputs) };
            }
        }
    }
}

impl Reduce<'_> {
    /// The results of at most [`PANEL`] outputs and [`SHARED_ROWS`] rows.
    ///
    /// # Safety
    ///
    /// The instructions of `S` are enabled; rows and outputs are the problem's.
    #[inline(always)]
    unsafe fn panel<S: Lanes>(
        &self,
        workspace: &mut Workspace,
        rows: &Range<usize>,
        outputs: &Range<usize>,
    ) {
        let (block, inputs) = (
            self.codes.geometry.format().block(),
            self.codes.geometry.cols(),
        );
        let groups = 0..self.codes.groups();
        workspace.panel.resize(PANEL * block);
        workspace.sums.resize(rows.len() * PANEL * GROUP);
        workspace.sums.fill(0.0);
        let (panel, sums) = (workspace.panel.as_mut_ptr(), workspace.sums.as_mut_ptr());
        // SAFETY: the panel holds `PANEL` blocks, the sums 16 floats for each row and output of the panel; activations
        // are read inside `[rows, inputs]`.
        unsafe {
            let decoder = S::decoder(&self.codes.layout());
            for index in 0..self.codes.geometry.blocks_per_row() {
                for (i, output) in outputs.clone().enumerate() {
                    self.codes
                        .decode::<S>(&decoder, output, index, &groups, panel.add(i * block));
                }
                let x = self.x.as_ptr().add(rows.start * inputs + index * block);
                let tile = Tile {
                    panel,
                    block,
                    x,
                    inputs,
                    sums,
                };
                tile.multiply_all::<S>(outputs.len(), rows.len());
            }
        }
        self.write(&workspace.sums, rows, outputs);
    }

    fn write(&self, sums: &[f32], rows: &Range<usize>, outputs: &Range<usize>) {
        let (sums, _) = sums.as_chunks::<GROUP>();
        for (row, sums) in rows.clone().zip(sums.chunks_exact(PANEL)) {
            let mut values = [0.0; PANEL];
            for ((value, sum), output) in values.iter_mut().zip(sums).zip(outputs.clone()) {
                *value = lanes::sum(sum) * self.factors[output];
            }
            let start = row * self.codes.geometry.rows() + outputs.start;
            // SAFETY: the outputs are this strip's alone, and inside the row.
            unsafe { self.y.write(start, &values[..outputs.len()]) };
        }
    }
}

/// One panel against one block of the activations.
struct Tile {
    panel: *const f32,
    block: usize,
    /// The block's activations of the first row; rows are `inputs` apart.
    x: *const f32,
    inputs: usize,
    sums: *mut f32,
}

impl Tile {
    /// # Safety
    ///
    /// The instructions of `S` are enabled; `outputs` rows of the panel, `rows` rows of activations and their sums are
    /// there.
    #[inline(always)]
    unsafe fn multiply_all<S: Lanes>(&self, outputs: usize, rows: usize) {
        // SAFETY: as the caller vouches; every output and row is visited once.
        unsafe {
            let mut row = 0;
            while row < rows {
                row += match (outputs, rows - row) {
                    (PANEL, 4..) if S::ROOMY => self.multiply::<S, PANEL, 4>(0, row),
                    (PANEL, 2..) if !S::ROOMY => {
                        self.multiply::<S, 2, 2>(0, row);
                        self.multiply::<S, 2, 2>(2, row)
                    }
                    (PANEL, _) => self.multiply::<S, PANEL, 1>(0, row),
                    _ => (0..outputs)
                        .map(|output| self.multiply::<S, 1, 1>(output, row))
                        .fold(1, usize::max),
                };
            }
        }
    }

    /// Adds to the sums of some outputs and rows; gives the number of rows.
    ///
    /// # Safety
    ///
    /// As [`Tile::multiply_all`].
    #[inline(always)]
    unsafe fn multiply<S: Lanes, const OUTPUTS: usize, const ROWS: usize>(
        &self,
        output: usize,
        row: usize,
    ) -> usize {
        // SAFETY: as the caller vouches.
        unsafe {
            let place =
                |o: usize, r: usize| self.sums.add(((row + r) * PANEL + output + o) * GROUP);
            let mut sums = [[S::zero(); OUTPUTS]; ROWS];
            for (r, sums) in sums.iter_mut().enumerate() {
                for (o, sum) in sums.iter_mut().enumerate() {
                    *sum = S::load(place(o, r));
                }
            }
            for u in (0..self.block).step_by(GROUP) {
                let weights: [S::Floats; OUTPUTS] =
                    std::array::from_fn(|o| S::load(self.panel.add((output + o) * self.block + u)));
                for (r, sums) in sums.iter_mut().enumerate() {
                    let x = S::load(self.x.add((row + r) * self.inputs + u));
                    for (o, sum) in sums.iter_mut().enumerate() {
                        *sum = S::mul_add(weights[o], x, *sum);
                    }
                }
            }
            for (r, sums) in sums.into_iter().enumerate() {
                for (o, sum) in sums.into_iter().enumerate() {
                    S::store(place(o, r), sum);
                }
            }
        }
        ROWS
    }
}
