//! How the kernels decode, and which kernels a layer may take: one number.

use crate::Error;

/// A decode selection, 0 to 13.
///
/// Up to 6 it names the arithmetic of the products on ordinary lanes, in the base kernels. From 7 on
/// the arithmetic is that of 6, and each number permits more kernels. Selections 0 to 3 give the same
/// bits, with weights that are exact and then rounded to bfloat16; so do 6 to 13 at up to 4 rows,
/// with unrounded float32 weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selection(u8);

impl Selection {
    /// Division, weights rounded to bfloat16.
    pub const DIVIDE: Self = Self(0);
    /// Exact values from a table in threadgroup memory, weights rounded to bfloat16.
    pub const TABLE: Self = Self(2);
    /// No decoding at all: the state's number takes the place of its value. For timing only; its
    /// products are wrong by design.
    pub const FLOOR: Self = Self(4);
    /// Unrefined float32 weights, base kernels.
    pub const UNREFINED: Self = Self(6);
    /// Every kernel.
    pub const ALL_KERNELS: Self = Self(13);

    /// The selection of that number.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] above 13.
    pub fn new(number: u8) -> Result<Self, Error> {
        if number > Self::ALL_KERNELS.0 {
            return Err(Error::Value {
                op: super::OP,
                argument: "decode selection",
                found: number.to_string(),
                expected: "0 to 13".into(),
            });
        }
        Ok(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The arithmetic of the products, 0 to 6: the kernels' `DECODE`.
    pub(super) fn decode(self) -> i32 {
        i32::from(self.0.min(Self::UNREFINED.0))
    }

    /// The arithmetic of the expansion: division, refined, or the table. All give the same values.
    pub(super) fn expansion(self) -> i32 {
        match self.0 {
            0 => 0,
            1 => 1,
            _ => 3,
        }
    }

    /// Whether kernels that share a decoded weight between 2 to 4 rows are permitted.
    pub(super) fn shares_rows_of_reduce(self) -> bool {
        self.0 >= 7
    }

    /// Whether the balanced 3-bit scatter is permitted.
    pub(super) fn balances_scatter(self) -> bool {
        self.0 >= 8
    }

    /// Whether the scatter that shares a decoded weight between 2 to 4 rows is permitted.
    pub(super) fn shares_rows_of_scatter(self) -> bool {
        self.0 >= 10
    }

    /// Whether the tiled and the wide prefill are permitted.
    pub(super) fn tiles_prefill(self) -> bool {
        self.0 >= 11
    }

    /// Whether the split prefill is permitted.
    pub(super) fn splits_prefill(self) -> bool {
        self.0 >= 12
    }
}

impl Default for Selection {
    fn default() -> Self {
        Self::ALL_KERNELS
    }
}
