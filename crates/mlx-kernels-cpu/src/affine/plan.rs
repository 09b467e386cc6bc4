//! How a product is cut up: a pure function of its extents, with the constants it rests on.

use std::ops::Range;

use super::Problem;

/// Packed bytes in a strip: enough that taking one costs nothing beside it, little enough that
/// threads finish together.
const STRIP_BYTES: usize = 48 << 10;

/// Outputs in a strip, at most and at least, where many rows reuse what is decoded.
const TILED_COLUMNS: usize = 32;

/// Rows whose accumulators are kept at once, at most. With [`TILED_COLUMNS`] outputs they take
/// 128 KiB, and a chunk of so many rows of activations as much again: both fit in a second-level
/// cache.
const ROWS_AT_ONCE: usize = 66;

/// How one product is cut up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) bits: usize,
    pub(super) rows: usize,
    /// Rows taken through a strip together.
    pub(super) rows_at_once: usize,
    /// Outputs in a strip.
    pub(super) columns: usize,
    /// Weights decoded and multiplied, in all: what the number of threads is decided by.
    pub(super) effort: usize,
}

impl Plan {
    /// The plan for a product.
    pub(super) fn new(problem: &Problem) -> Self {
        let row_bytes = problem.words_per_row() * 4;
        let columns = (STRIP_BYTES / row_bytes / 4 * 4).clamp(4, 256);
        let columns = if problem.rows() > 4 {
            TILED_COLUMNS
        } else {
            columns
        };
        let passes = problem.rows().div_ceil(ROWS_AT_ONCE).max(1);
        Self {
            bits: problem.bits(),
            rows: problem.rows(),
            rows_at_once: problem.rows().div_ceil(passes),
            columns: columns.min(problem.n()),
            effort: problem.n() * problem.k() * (2 + problem.rows()),
        }
    }

    /// The number of strips that `n` outputs make.
    pub(super) fn strips(&self, n: usize) -> usize {
        n.div_ceil(self.columns)
    }

    /// The outputs of strip `index`.
    pub(super) fn strip(&self, index: usize, n: usize) -> Range<usize> {
        let first = index * self.columns;
        first..n.min(first + self.columns)
    }
}
