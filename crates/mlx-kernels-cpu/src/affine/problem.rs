//! What a product is: extents, bit width and group size, checked once.

use crate::error::{check_length, check_type};
use crate::{Error, Floats, FloatsMut};

/// Extents and format of one product `y[rows, n] = x[rows, k] * W[n, k]^T`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    rows: usize,
    n: usize,
    k: usize,
    bits: usize,
    group_size: usize,
}

impl Problem {
    /// Checks the extents and the format.
    ///
    /// # Errors
    ///
    /// [`Error::Bits`] and [`Error::GroupSize`] outside 2, 3, 4, 5, 6, 8 and 32, 64, 128;
    /// [`Error::InnerWidth`] if `k` is not a positive multiple of `group_size`; [`Error::Empty`]
    /// if `n` is 0 (no rows are fine); [`Error::TooLarge`] if a matrix could not be addressed.
    pub fn new(
        rows: usize,
        n: usize,
        k: usize,
        bits: usize,
        group_size: usize,
    ) -> Result<Self, Error> {
        if !matches!(bits, 2 | 3 | 4 | 5 | 6 | 8) {
            return Err(Error::Bits { got: bits });
        }
        if !matches!(group_size, 32 | 64 | 128) {
            return Err(Error::GroupSize { got: group_size });
        }
        if k == 0 || !k.is_multiple_of(group_size) {
            return Err(Error::InnerWidth { k, group_size });
        }
        if n == 0 {
            return Err(Error::Empty { argument: "n" });
        }
        for (argument, rows, columns) in [("x", rows, k), ("w", n, k), ("y", rows, n)] {
            let bytes = rows
                .checked_mul(columns)
                .and_then(|elements| elements.checked_mul(4));
            if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
                return Err(Error::TooLarge {
                    argument,
                    rows,
                    columns,
                });
            }
        }
        Ok(Self {
            rows,
            n,
            k,
            bits,
            group_size,
        })
    }

    /// Rows of `x` and of the result.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Outputs a row: rows of the weight.
    #[must_use]
    pub fn n(&self) -> usize {
        self.n
    }

    /// Inner width.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    /// Bits a weight.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Consecutive weights of a row that share scale and bias.
    #[must_use]
    pub fn group_size(&self) -> usize {
        self.group_size
    }

    /// Words in a packed row of the weight.
    #[must_use]
    pub fn words_per_row(&self) -> usize {
        self.k / 32 * self.bits
    }

    /// Groups in a row of the weight.
    #[must_use]
    pub fn groups_per_row(&self) -> usize {
        self.k / self.group_size
    }

    /// Checks the weight's three arrays.
    pub(crate) fn check_weight(
        &self,
        w: &[u32],
        scales: Floats<'_>,
        biases: Floats<'_>,
    ) -> Result<(), Error> {
        check_length("w", w.len(), self.n * self.words_per_row())?;
        check_length("scales", scales.len(), self.n * self.groups_per_row())?;
        check_length("biases", biases.len(), self.n * self.groups_per_row())?;
        check_type("biases", biases.float_type(), "scales", scales.float_type())
    }

    /// Checks the activations and the place for the result.
    pub(crate) fn check_rows(&self, x: Floats<'_>, y: &FloatsMut<'_>) -> Result<(), Error> {
        check_length("x", x.len(), self.rows * self.k)?;
        check_length("y", y.len(), self.rows * self.n)
    }
}
