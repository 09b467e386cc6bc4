//! The result, as threads that write disjoint columns of it see it.

use crate::float::SharedFloats;

/// Some columns of a result that one thread alone writes.
#[derive(Debug)]
pub(super) struct Columns {
    values: SharedFloats,
    rows: usize,
    /// Columns of the whole result.
    n: usize,
    first: usize,
    count: usize,
}

impl Columns {
    /// Columns `first .. first + count` of a result of `rows` rows and `n` columns.
    ///
    /// # Safety
    ///
    /// `values` has that many elements and outlives this. While this lives nothing else touches
    /// these columns.
    pub(super) unsafe fn new(
        values: SharedFloats,
        rows: usize,
        n: usize,
        first: usize,
        count: usize,
    ) -> Self {
        assert!(
            first + count <= n,
            "columns {first} to {} of {n}",
            first + count
        );
        Self {
            values,
            rows,
            n,
            first,
            count,
        }
    }

    /// Rounds and writes `sums` to row `row`, from the part's column `column` on.
    pub(super) fn write(&self, row: usize, column: usize, sums: &[f32]) {
        assert!(
            row < self.rows && column + sums.len() <= self.count,
            "a result out of place"
        );
        // SAFETY: the elements are there, and this thread's: see `new`.
        unsafe { self.values.write(row * self.n + self.first + column, sums) }
    }
}
