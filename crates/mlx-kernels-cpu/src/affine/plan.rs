//! How a product is cut up: a pure function of its extents, with the constants it rests on.

use std::ops::Range;

use super::{Problem, fused};

/// Packed bytes in a strip where weights are used once: enough that taking a strip costs nothing
/// beside it, little enough that threads finish together.
const STRIP_BYTES: usize = 48 << 10;

/// Outputs in a strip, at least and at most.
const FUSED_OUTPUTS: (usize, usize) = (4, fused::MOST_OUTPUTS);

/// Strips that even a small weight is cut into.
const FEWEST_STRIPS: usize = 8;

/// Outputs in a strip where many rows share what is decoded.
const TILED_OUTPUTS: usize = 32;

/// Rows whose accumulators are kept at once, at most. With [`TILED_OUTPUTS`] outputs they take
/// 132 KiB, and a chunk of so many rows of activations as much again: both fit in a second-level
/// cache.
const ROWS_AT_ONCE: usize = 66;

/// What decoding a weight costs, in the multiply-adds that threads are counted by.
const DECODING: usize = 2;

/// How weights and rows meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// Decoded in registers and used there.
    Fused,
    /// Decoded into a tile that `rows_at_once` rows are multiplied with.
    Tiled {
        /// Rows whose accumulators are kept at once.
        rows_at_once: usize,
    },
}

/// How one product is cut up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) path: Path,
    /// Outputs in a strip.
    pub(super) outputs: usize,
    /// What the number of threads is decided by, in multiply-adds.
    pub(super) effort: usize,
}

impl Plan {
    /// The plan for a product of at least one row.
    pub(super) fn new(problem: &Problem) -> Self {
        let rows = problem.rows();
        let (path, outputs) = if rows <= fused::MOST_ROWS {
            let (least, most) = FUSED_OUTPUTS;
            let fit = STRIP_BYTES / (4 * problem.words_per_row());
            let fit = (fit / least * least).clamp(least, most);
            // Strips of equal size, and enough of them that threads finish together.
            let strips = problem.n().div_ceil(fit).max(FEWEST_STRIPS);
            let outputs = problem.n().div_ceil(strips).next_multiple_of(least);
            (Path::Fused, outputs)
        } else {
            // Passes of equal size, none of them nearly empty.
            let rows_at_once = rows.div_ceil(rows.div_ceil(ROWS_AT_ONCE));
            (Path::Tiled { rows_at_once }, TILED_OUTPUTS)
        };
        let weights = problem.n() * problem.k();
        Self {
            path,
            outputs,
            effort: weights.saturating_mul(DECODING + rows),
        }
    }

    /// The number of strips that `n` outputs make.
    pub(super) fn strips(&self, n: usize) -> usize {
        n.div_ceil(self.outputs)
    }

    /// The outputs of strip `index`.
    pub(super) fn strip(&self, index: usize, n: usize) -> Range<usize> {
        let first = index * self.outputs;
        first..n.min(first + self.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_follow_the_extents() {
        let tiled = |rows_at_once| Path::Tiled { rows_at_once };
        for (rows, n, k, bits, path, outputs) in [
            // 48 KiB are 19 rows of 2560 bytes.
            (1, 17_408, 5120, 4, Path::Fused, 16),
            (4, 17_408, 5120, 4, Path::Fused, 16),
            (1, 5120, 17_408, 4, Path::Fused, 4),
            (1, 1536, 576, 4, Path::Fused, 156),
            (1, 576, 576, 4, Path::Fused, 72),
            (1, 1, 32, 2, Path::Fused, 4),
            (6, 17_408, 5120, 4, Path::Fused, 16),
            (7, 17_408, 5120, 4, tiled(7), 32),
            (64, 17_408, 5120, 4, tiled(64), 32),
            (67, 17_408, 5120, 4, tiled(34), 32),
            (512, 17_408, 5120, 4, tiled(64), 32),
        ] {
            let problem = Problem::new(rows, n, k, bits, 32).expect("a valid problem");
            let plan = Plan::new(&problem);
            assert_eq!(
                (plan.path, plan.outputs),
                (path, outputs),
                "{rows} rows, {n} x {k}"
            );
        }
    }

    #[test]
    fn strips_cover_the_outputs_once() {
        let problem = Problem::new(1, 203, 5120, 4, 64).expect("a valid problem");
        let plan = Plan::new(&problem);
        let outputs: Vec<usize> = (0..plan.strips(203))
            .flat_map(|index| plan.strip(index, 203))
            .collect();
        assert_eq!(outputs, (0..203).collect::<Vec<_>>());
    }
}
