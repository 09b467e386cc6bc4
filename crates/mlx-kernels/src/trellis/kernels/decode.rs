//! The shaders' `DECODE` numbers that no selection stands for: see `codebook.h`.

/// The values of selection 6, from integer codes by a conversion.
pub(super) const CONVERTED: i32 = 7;
/// Those values, from a table in threadgroup memory.
pub(super) const TABLE_UNREFINED: i32 = 8;
/// Those values, from a table of integer codes of 16 bits.
pub(super) const TABLE_CODES: i32 = 9;
/// Integer codes in place of weights.
pub(super) const FACTORED: i32 = 10;
