//! Axis 0: every stored row, times its activation, is added to all outputs.
//!
//! A part of the work is a range of one block's columns, over all stored rows. Eight rows are decoded at a time into a
//! panel that stays in the first-level cache and is added to every row of results. Each result is one sum over
//! ascending stored rows.

use std::cell::RefCell;
use std::ops::Range;

use super::codes::Codes;
use super::lanes::{self, Kernel, Lanes};
use super::{GROUP, SHARED_ROWS};
use crate::aligned::AlignedFloats;
use crate::float::SharedFloats;
use crate::{Execution, Floats, threads};

/// Stored rows decoded into one panel.
const PANEL: usize = 8;

/// Groups of a part that is not a whole block, at least.
const LEAST_GROUPS: usize = 4;

pub(super) fn multiply(
    execution: Execution,
    codes: &Codes<'_>,
    rows: usize,
    x: Floats<'_>,
    factors: &[f32],
    y: SharedFloats,
) {
    let x = scaled(x, factors);
    let (blocks, groups) = (codes.geometry.blocks_per_row(), codes.groups());
    let parts_wanted = 4 * execution.threads.get();
    let split = parts_wanted
        .div_ceil(blocks)
        .min((groups / LEAST_GROUPS).max(1));
    let share = groups.div_ceil(split);
    let effort = (rows + 4).saturating_mul(codes.geometry.weights());
    let split = groups.div_ceil(share);
    threads::share(blocks * split, execution.threads, effort, &|part| {
        let first = part % split * share;
        let groups = first..groups.min(first + share);
        WORKSPACE.with_borrow_mut(|workspace| {
            let scatter = Scatter {
                codes,
                x: &x,
                rows,
                block: part / split,
                groups,
                y,
            };
            lanes::enter(execution.level, (scatter, workspace));
        });
    });
}

/// The activations as f32, each times the factor of its stored row.
fn scaled(x: Floats<'_>, factors: &[f32]) -> Vec<f32> {
    let mut scaled = vec![0.0; x.len()];
    x.widen_into(0, &mut scaled);
    for row in scaled.chunks_exact_mut(factors.len().max(1)) {
        row.iter_mut()
            .zip(factors)
            .for_each(|(x, factor)| *x *= factor);
    }
    scaled
}

/// The outputs of some groups of one block, for all rows.
struct Scatter<'a> {
    codes: &'a Codes<'a>,
    x: &'a [f32],
    rows: usize,
    block: usize,
    groups: Range<usize>,
    y: SharedFloats,
}

#[derive(Default)]
struct Workspace {
    /// `[PANEL, columns]` decoded weights.
    panel: AlignedFloats,
    /// `[rows, columns]` sums.
    sums: AlignedFloats,
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

// The workspace comes from outside: a closure here would be a function without the instructions.
impl Kernel for (Scatter<'_>, &mut Workspace) {
    #[inline(always)]
    unsafe fn run<S: Lanes>(self) {
        let (scatter, workspace) = self;
        for first in (0..scatter.rows).step_by(SHARED_ROWS) {
            let rows = first..scatter.rows.min(first + SHARED_ROWS);
            // SAFETY: the instructions are enabled; the rows are the problem's.
            unsafe { scatter.add_all::<S>(workspace, &rows) };
            scatter.write(&mut workspace.sums, &rows);
        }
    }
}

impl Scatter<'_> {
    fn columns(&self) -> usize {
        self.groups.len() * GROUP
    }

    /// Sums all stored rows for at most [`SHARED_ROWS`] rows of activations.
    ///
    /// # Safety
    ///
    /// The instructions of `S` are enabled; the rows are the problem's.
    #[inline(always)]
    unsafe fn add_all<S: Lanes>(&self, workspace: &mut Workspace, rows: &Range<usize>) {
        let (columns, inputs) = (self.columns(), self.codes.geometry.rows());
        workspace.panel.resize(PANEL * columns);
        workspace.sums.resize(rows.len() * columns);
        workspace.sums.fill(0.0);
        let (panel, sums) = (workspace.panel.as_mut_ptr(), workspace.sums.as_mut_ptr());
        // SAFETY: the panel holds `PANEL` ranges of columns, the sums one for each row; activations are read inside
        // `[rows, inputs]`.
        unsafe {
            let decoder = S::decoder(&self.codes.layout());
            for first in (0..inputs).step_by(PANEL) {
                let count = PANEL.min(inputs - first);
                for i in 0..count {
                    self.codes
                        .prefetch::<S>(first + PANEL + i, self.block, &self.groups);
                    let decoded = panel.add(i * columns);
                    self.codes
                        .decode::<S>(&decoder, first + i, self.block, &self.groups, decoded);
                }
                let x = self.x.as_ptr().add(rows.start * inputs + first);
                let tile = Tile {
                    panel,
                    count,
                    columns,
                    x,
                    inputs,
                    sums,
                };
                tile.add_panel::<S>(rows.len());
            }
        }
    }

    /// Writes the sums; columns run against positions.
    fn write(&self, sums: &mut [f32], rows: &Range<usize>) {
        let format = self.codes.geometry.format();
        let first = (self.block + 1) * format.block() - self.groups.end * GROUP;
        for (row, sums) in rows.clone().zip(sums.chunks_exact_mut(self.columns())) {
            sums.reverse();
            // SAFETY: the columns are this part's alone, and inside the row.
            unsafe { self.y.write(row * self.codes.geometry.cols() + first, sums) };
        }
    }
}

/// One panel of `count` stored rows against their activations.
struct Tile {
    panel: *const f32,
    count: usize,
    columns: usize,
    /// The first row's activations of the panel; rows are `inputs` apart.
    x: *const f32,
    inputs: usize,
    sums: *mut f32,
}

impl Tile {
    /// Adds the panel to the sums of all rows.
    ///
    /// # Safety
    ///
    /// The instructions of `S` are enabled; the panel, `rows` rows of activations and their sums are there.
    #[inline(always)]
    unsafe fn add_panel<S: Lanes>(&self, rows: usize) {
        let groups = self.columns / GROUP;
        let mut row = 0;
        while row < rows {
            let wide = S::ROOMY && rows - row >= 4;
            let mut group = 0;
            // SAFETY: as the caller vouches; every row and group is visited once.
            unsafe {
                while group < groups {
                    group += match (wide, groups - group) {
                        (true, 2..) => self.add::<S, 4, 2>(row, group),
                        (true, _) => self.add::<S, 4, 1>(row, group),
                        (false, 4..) => self.add::<S, 1, 4>(row, group),
                        (false, _) => self.add::<S, 1, 1>(row, group),
                    };
                }
            }
            row += if wide { 4 } else { 1 };
        }
    }

    /// Adds to the sums of some rows and groups; gives the number of groups.
    ///
    /// # Safety
    ///
    /// As [`Tile::add_panel`].
    #[inline(always)]
    unsafe fn add<S: Lanes, const ROWS: usize, const GROUPS: usize>(
        &self,
        row: usize,
        group: usize,
    ) -> usize {
        // SAFETY: as the caller vouches.
        unsafe {
            let place = |r: usize, g: usize| {
                self.sums
                    .add((row + r) * self.columns + (group + g) * GROUP)
            };
            let mut sums = [[S::zero(); GROUPS]; ROWS];
            for (r, sums) in sums.iter_mut().enumerate() {
                for (g, sum) in sums.iter_mut().enumerate() {
                    *sum = S::load(place(r, g));
                }
            }
            for i in 0..self.count {
                let weights: [S::Floats; GROUPS] = std::array::from_fn(|g| {
                    S::load(self.panel.add(i * self.columns + (group + g) * GROUP))
                });
                for (r, sums) in sums.iter_mut().enumerate() {
                    let x = S::splat(*self.x.add((row + r) * self.inputs + i));
                    for (g, sum) in sums.iter_mut().enumerate() {
                        *sum = S::mul_add(weights[g], x, *sum);
                    }
                }
            }
            for (r, sums) in sums.into_iter().enumerate() {
                for (g, sum) in sums.into_iter().enumerate() {
                    S::store(place(r, g), sum);
                }
            }
        }
        GROUPS
    }
}
