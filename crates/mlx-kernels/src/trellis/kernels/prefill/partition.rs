//! How a product is cut into parts along its inner dimension.

/// The inner step of the tiles, of which parts are whole numbers.
const STEP: i32 = 16;
/// Side of the tiles that a product is counted in.
const TILE: i32 = 32;

/// The parts of the inner dimension of a product of `rows` rows, `inner` values long, with
/// `outputs` outputs: MLX's own division for bfloat16, so that partial sums are the same.
///
/// With `s = inner / 16` steps and `t = ceil(rows / 32) * ceil(outputs / 32)` tiles of results
/// there are `s / t` parts, rounded up to a power of two and kept from 2 to 32; each part but the
/// last is `s / parts` steps long, and the last goes on to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SplitPartition {
    splits: i32,
    length: i32,
    last_length: i32,
}

impl SplitPartition {
    /// The division of a product. Extents below 1 count as 1.
    pub fn new(rows: i32, inner: i32, outputs: i32) -> Self {
        let (rows, inner, outputs) = (rows.max(1), inner.max(1), outputs.max(1));
        let steps = inner / STEP;
        let tiles = i64::from((rows - 1) / TILE + 1) * i64::from((outputs - 1) / TILE + 1);
        let wanted = i64::from(steps) / tiles;
        let splits = wanted.clamp(2, 32).unsigned_abs().next_power_of_two() as i32;
        let length = steps / splits * STEP;
        Self {
            splits,
            length,
            last_length: inner - (splits - 1) * length,
        }
    }

    /// Number of parts: 2, 4, 8, 16 or 32.
    pub fn splits(self) -> i32 {
        self.splits
    }

    /// Inner values of a part that is not the last, a multiple of 16.
    pub fn length(self) -> i32 {
        self.length
    }

    /// Inner values of the last part.
    pub fn last_length(self) -> i32 {
        self.last_length
    }
}

#[cfg(test)]
mod tests {
    use super::SplitPartition;

    #[test]
    fn parts_of_measured_and_small_products() {
        for ([rows, inner, outputs], expected) in [
            ([8, 17408, 5120], [8, 2176, 2176]),
            ([5, 1280, 256], [16, 80, 80]),
            ([8, 2080, 512], [8, 256, 288]),
            ([5, 4096, 768], [16, 256, 256]),
            ([8, 128, 32], [8, 16, 16]),
            ([8, 128, 128], [2, 64, 64]),
            ([8, 143, 32], [8, 16, 31]),
            ([8, 1 << 20, 32], [32, 1 << 15, 1 << 15]),
            ([8, 15, 64], [2, 0, 15]),
        ] {
            let found = SplitPartition::new(rows, inner, outputs);
            let [splits, length, last] = expected;
            let context = format!("{rows} x {inner} by {outputs}");
            assert_eq!(found.splits(), splits, "{context}");
            assert_eq!(found.length(), length, "{context}");
            assert_eq!(found.last_length(), last, "{context}");
        }
    }

    #[test]
    fn parts_cover_the_inner_dimension() {
        for inner in 1..2000 {
            for outputs in [1, 32, 33, 256, 4096] {
                let parts = SplitPartition::new(8, inner, outputs);
                let before = (parts.splits() - 1) * parts.length();
                assert_eq!(before + parts.last_length(), inner);
                assert!(parts.last_length() >= parts.length());
                assert_eq!(parts.length() % 16, 0);
            }
        }
    }
}
