//! The parameters of one trellis code and the sizes that follow from them.

use crate::{Error, Result};

/// Largest number of bits per weight.
pub const MAX_BITS: u32 = 8;
/// Largest number of state bits: a state fits a `u16`, and a window of the stream two words.
pub const MAX_STATE_BITS: u32 = 16;
/// State bits every kernel is qualified for.
pub const DEFAULT_STATE_BITS: u32 = 12;
/// Block length every kernel is qualified for.
pub const DEFAULT_BLOCK: usize = 256;

const MAX_BLOCK: usize = 1 << 16;

/// A bit-shift trellis code: `k` bits per weight, `2^L` states, blocks of `T` weights.
///
/// A value of this type is always valid: `1 <= k <= 8`, `k < L <= 16`, `T * k` a positive multiple of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    bits: u32,
    state_bits: u32,
    block: usize,
}

impl Format {
    /// Checks `k` bits per weight, `L` state bits and blocks of `T` weights.
    ///
    /// # Errors
    /// [`Error::Bits`], [`Error::StateBits`], [`Error::Block`] or [`Error::BlockBits`], naming the number.
    pub fn new(bits: u32, state_bits: u32, block: usize) -> Result<Self> {
        let format = Self::with_any_block(bits, state_bits, block)?;
        format.check_block_bits()?;
        Ok(format)
    }

    /// The format for a coded dimension of `cols` weights: blocks of 256 where they divide it, else of the largest
    /// smaller multiple of 32 that does. The error grows as blocks shrink.
    ///
    /// # Errors
    /// As [`Format::new`]; [`Error::PartialBlock`] when not even blocks of 32 divide `cols`.
    pub fn fitting(bits: u32, state_bits: u32, cols: usize) -> Result<Self> {
        let mut blocks = (32..=DEFAULT_BLOCK).rev().step_by(32);
        match blocks.find(|block| cols > 0 && cols.is_multiple_of(*block)) {
            Some(block) => Self::new(bits, state_bits, block),
            None => Err(Error::PartialBlock { cols, block: 32 }),
        }
    }

    /// As [`Format::new`] without the check of `T * k`, for callers whose order of checks differs.
    pub(crate) fn with_any_block(bits: u32, state_bits: u32, block: usize) -> Result<Self> {
        if !(1..=MAX_BITS).contains(&bits) {
            return Err(Error::Bits { found: bits });
        }
        if state_bits <= bits || state_bits > MAX_STATE_BITS {
            return Err(Error::StateBits {
                found: state_bits,
                bits,
            });
        }
        if !(1..=MAX_BLOCK).contains(&block) {
            return Err(Error::Block { found: block });
        }
        Ok(Self {
            bits,
            state_bits,
            block,
        })
    }

    pub(crate) fn check_block_bits(&self) -> Result<()> {
        let bits_per_block = self.block * self.bits as usize;
        if bits_per_block.is_multiple_of(32) {
            Ok(())
        } else {
            Err(Error::BlockBits {
                block: self.block,
                bits: self.bits,
                bits_per_block,
            })
        }
    }

    /// Bits per weight, `k`.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// State bits, `L`.
    #[must_use]
    pub fn state_bits(&self) -> u32 {
        self.state_bits
    }

    /// Weights per block, `T`.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// 32-bit words per block, `T * k / 32`.
    #[must_use]
    pub fn words_per_block(&self) -> usize {
        self.block * self.bits as usize / 32
    }

    /// Number of states, `2^L`.
    #[must_use]
    pub fn states(&self) -> usize {
        1 << self.state_bits
    }

    /// Number of overlaps, `J = 2^(L-k)`: the values of the bits two successive states share.
    #[must_use]
    pub fn overlaps(&self) -> usize {
        1 << (self.state_bits - self.bits)
    }

    /// Number of symbols, `2^k`.
    #[must_use]
    pub fn symbols(&self) -> usize {
        1 << self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_parameters() {
        for bits in 1..=8 {
            let format = Format::new(bits, 12, 256).unwrap();
            assert_eq!(format.words_per_block(), 8 * bits as usize);
            assert_eq!(format.overlaps() * format.symbols(), format.states());
        }
    }

    #[test]
    fn blocks_fit_the_coded_dimension() {
        let block = |cols| Format::fitting(3, 12, cols).map(|format| format.block());
        assert_eq!(
            [block(5120), block(576), block(1536), block(160), block(32)].map(Result::unwrap),
            [256, 192, 256, 160, 32]
        );
        assert_eq!(
            block(48),
            Err(Error::PartialBlock {
                cols: 48,
                block: 32
            })
        );
        assert_eq!(block(0), Err(Error::PartialBlock { cols: 0, block: 32 }));
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        assert_eq!(Format::new(0, 12, 256), Err(Error::Bits { found: 0 }));
        assert_eq!(Format::new(9, 12, 256), Err(Error::Bits { found: 9 }));
        assert_eq!(
            Format::new(3, 3, 256),
            Err(Error::StateBits { found: 3, bits: 3 })
        );
        assert_eq!(
            Format::new(3, 17, 256),
            Err(Error::StateBits { found: 17, bits: 3 })
        );
        assert_eq!(Format::new(3, 12, 0), Err(Error::Block { found: 0 }));
        assert_eq!(
            Format::new(3, 12, 1 << 20),
            Err(Error::Block { found: 1 << 20 })
        );
        let error = Format::new(3, 12, 100).unwrap_err();
        assert_eq!(
            error,
            Error::BlockBits {
                block: 100,
                bits: 3,
                bits_per_block: 300
            }
        );
        assert!(error.to_string().contains("300"));
    }
}
