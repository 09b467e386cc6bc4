//! How the wide matrix kernels cut a product: data, with its origin.

use trellis_codec::Layout;

use crate::Error;

/// Rows of x that a block of the matrix unit holds.
const BLOCK_ROWS: i32 = 8;
/// Matrices of partial sums that the lanes of a simdgroup have registers for.
const MOST_SUMS: i32 = 32;

/// What a simdgroup of a wide kernel holds at a time. No pass gives other bits than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pass {
    matrices: i32,
    blocks: i32,
}

impl Pass {
    /// The cheapest pass for one block, 1 to 8 rows, in either layout.
    pub const ONE_BLOCK: Self = Self {
        matrices: 16,
        blocks: 1,
    };

    /// A pass of `matrices` 8x8 matrices of codes, each decoded once for `blocks` blocks of 8 rows of
    /// x.
    ///
    /// # Errors
    ///
    /// Unless there are 4, 8 or 16 matrices and 1 to `32 / matrices` blocks.
    pub fn new(matrices: i32, blocks: i32) -> Result<Self, Error> {
        let fits = matches!(matrices, 4 | 8 | 16) && (1..=MOST_SUMS / matrices).contains(&blocks);
        if !fits {
            return Err(Error::Value {
                op: "trellis_down_mma_wide",
                argument: "the pass",
                found: format!("{matrices} matrices by {blocks} blocks"),
                expected: "4, 8 or 16 matrices, and at most 32 by blocks".into(),
            });
        }
        Ok(Self { matrices, blocks })
    }

    /// 8x8 matrices of codes.
    pub fn matrices(self) -> i32 {
        self.matrices
    }

    /// Blocks of 8 rows of x.
    pub fn blocks(self) -> i32 {
        self.blocks
    }

    /// Passes over the codes for so many rows.
    pub(super) fn count(self, rows: i32) -> i32 {
        rows.max(1)
            .unsigned_abs()
            .div_ceil((BLOCK_ROWS * self.blocks).unsigned_abs()) as i32
    }
}

/// The passes of a layout and what one pass over the codes costs, relative to each other.
#[derive(Debug, Clone)]
pub struct PassCosts {
    /// Where the costs come from.
    pub origin: &'static str,
    /// From few blocks to many; costs in hundredths.
    pub passes: &'static [(Pass, i64)],
}

static PAIRS: PassCosts = PassCosts {
    origin: "M1 Max, 3 bits, 17408 to 5120, 8 to 128 rows",
    passes: &[(Pass::ONE_BLOCK, 100)],
};

static ROWS: PassCosts = PassCosts {
    origin: "M1 Max, 2 bits, 17408 to 5120, 8 to 128 rows",
    passes: &[(Pass::ONE_BLOCK, 60), (pass(8, 2), 100), (pass(8, 3), 144)],
};

const fn pass(matrices: i32, blocks: i32) -> Pass {
    Pass { matrices, blocks }
}

/// The passes that [`pass_plan`] chooses from.
pub fn pass_costs(layout: Layout) -> &'static PassCosts {
    match layout {
        Layout::Rows => &ROWS,
        Layout::BlockPairs => &PAIRS,
    }
}

/// The pass that multiplies so many rows at the least cost; of equals, the one with more blocks.
pub fn pass_plan(layout: Layout, rows: i32) -> Pass {
    let mut best = (Pass::ONE_BLOCK, i64::MAX);
    for &(pass, cost) in pass_costs(layout).passes {
        let total = i64::from(pass.count(rows)) * cost;
        if total <= best.1 {
            best = (pass, total);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_pass_of_each_number_of_blocks() {
        let blocks = [1, 2, 3, 2, 3, 3, 2, 2, 3, 2, 3, 3, 2, 2, 3, 2, 3, 3];
        for (index, blocks) in blocks.into_iter().enumerate() {
            let expected = if blocks == 1 {
                pass(16, 1)
            } else {
                pass(8, blocks)
            };
            for rows in [8 * index as i32 + 1, 8 * index as i32 + 8] {
                assert_eq!(pass_plan(Layout::Rows, rows), expected, "{rows} rows");
                assert_eq!(pass_plan(Layout::BlockPairs, rows), Pass::ONE_BLOCK);
            }
        }
    }

    #[test]
    fn passes_that_no_simdgroup_can_hold() {
        for (matrices, blocks) in [(4, 8), (8, 4), (16, 2)] {
            let pass = Pass::new(matrices, blocks).unwrap();
            assert_eq!((pass.matrices(), pass.blocks()), (matrices, blocks));
        }
        for (matrices, blocks) in [(0, 1), (2, 1), (32, 1), (16, 0), (16, 3), (-8, 1)] {
            let error = Pass::new(matrices, blocks).unwrap_err().to_string();
            let found = format!("{matrices} matrices by {blocks} blocks");
            assert!(error.contains(&found), "{error}");
        }
    }
}
