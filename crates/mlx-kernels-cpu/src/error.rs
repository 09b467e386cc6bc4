//! What a caller can get wrong.

use crate::{FloatType, Level};

/// Why a kernel refused its arguments. Nothing was computed or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A bit width outside MLX's affine mode.
    #[error("bits is {got}; affine quantization has 2, 3, 4, 5, 6 or 8")]
    Bits {
        /// The bit width given.
        got: usize,
    },
    /// A group size outside MLX's affine mode.
    #[error("group_size is {got}; affine quantization has 32, 64 or 128")]
    GroupSize {
        /// The group size given.
        got: usize,
    },
    /// An inner width that is not made of whole groups.
    #[error("k is {k}; it must be a positive multiple of group_size, {group_size}")]
    InnerWidth {
        /// The inner width given.
        k: usize,
        /// The group size given.
        group_size: usize,
    },
    /// An extent that must be at least 1.
    #[error("{argument} is 0; it must be at least 1")]
    Empty {
        /// The extent's name.
        argument: &'static str,
    },
    /// Extents whose product does not fit in memory's address range.
    #[error("{argument} would have {rows} x {columns} elements, more than can be addressed")]
    TooLarge {
        /// The argument that would be too large.
        argument: &'static str,
        /// Its rows.
        rows: usize,
        /// Its columns.
        columns: usize,
    },
    /// A slice of the wrong length.
    #[error("{argument} has {got} elements; it must have {expected}")]
    Length {
        /// The argument's name.
        argument: &'static str,
        /// Its length.
        got: usize,
        /// The length it must have.
        expected: usize,
    },
    /// A slice that is not made of whole rows.
    #[error("{argument} has {got} elements; it must have whole rows of {width}")]
    Rows {
        /// The argument's name.
        argument: &'static str,
        /// Its length.
        got: usize,
        /// The length of a row.
        width: usize,
    },
    /// Two arguments that must share an element type and do not.
    #[error("{argument} is {got}; it must be {expected}, as {like} is")]
    ElementType {
        /// The argument's name.
        argument: &'static str,
        /// Its element type.
        got: FloatType,
        /// The argument it must agree with.
        like: &'static str,
        /// That argument's element type.
        expected: FloatType,
    },
    /// A number that must be finite and not negative.
    #[error("{argument} is {got}; it must be a number that is not negative")]
    Negative {
        /// The argument's name.
        argument: &'static str,
        /// Its value, as text.
        got: String,
    },
    /// Trellis codes in blocks that are not made of whole groups of 16 weights.
    #[error("the trellis block is {block} weights; it must be a multiple of 16")]
    TrellisBlock {
        /// The block length.
        block: usize,
    },
    /// Heads of queries that cannot be shared out among the heads of keys and values.
    #[error("heads is {heads}; it must be a positive multiple of kv_heads, {kv_heads}")]
    Heads {
        /// Heads of the queries.
        heads: usize,
        /// Heads of keys and values.
        kv_heads: usize,
    },
    /// More rotated dimensions than a head has.
    #[error("{got} dimensions are rotated; a head has head_dim, {head_dim}")]
    Rotated {
        /// The rotated dimensions.
        got: usize,
        /// The head's width.
        head_dim: usize,
    },
    /// A cache without room for the new tokens.
    #[error("capacity is {capacity}; held and new tokens need {needed}")]
    Capacity {
        /// Tokens that there is room for.
        capacity: usize,
        /// Tokens in all.
        needed: usize,
    },
    /// Instructions that this machine does not have.
    #[error("level is {got}; this machine has {available:?}")]
    Level {
        /// The level asked for.
        got: Level,
        /// The levels that would work.
        available: Vec<Level>,
    },
}

/// Refuses a slice that is not as long as it must be.
pub(crate) fn check_length(
    argument: &'static str,
    got: usize,
    expected: usize,
) -> Result<(), Error> {
    if got == expected {
        Ok(())
    } else {
        Err(Error::Length {
            argument,
            got,
            expected,
        })
    }
}

/// The number of rows of `width` in a slice of `got`.
pub(crate) fn whole_rows(argument: &'static str, got: usize, width: usize) -> Result<usize, Error> {
    if width == 0 || !got.is_multiple_of(width) {
        return Err(Error::Rows {
            argument,
            got,
            width,
        });
    }
    Ok(got / width)
}

/// Refuses an element type that is not the one of `like`.
pub(crate) fn check_type(
    argument: &'static str,
    got: FloatType,
    like: &'static str,
    expected: FloatType,
) -> Result<(), Error> {
    if got == expected {
        return Ok(());
    }
    Err(Error::ElementType {
        argument,
        got,
        like,
        expected,
    })
}
