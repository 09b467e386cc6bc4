//! The two-block interleave: words of block pairs, row after row, instead of row after row of blocks.
//!
//! It only moves words; codes, scales and results do not change. Consecutive rows of one block pair become neighbours
//! in memory, which is the order in which the axis-0 kernels read them.

use crate::error::expect_length;
use crate::{Error, Geometry, Layout, Result};

/// Rearranges row-major codes into block pairs. Returns the new geometry and words.
///
/// # Errors
/// [`Error::Layout`] when the codes are interleaved already or coded along axis 1, [`Error::BlockPairs`] when rows do
/// not hold complete pairs, [`Error::Length`] when `codes` does not fit the geometry.
pub fn interleave(geometry: &Geometry, codes: &[u32]) -> Result<(Geometry, Vec<u32>)> {
    if geometry.layout() != Layout::Rows {
        return Err(Error::Layout(
            "the codes are interleaved already: they must be row-major",
        ));
    }
    rearrange(geometry, codes, Layout::BlockPairs)
}

/// Rearranges block pairs into row-major codes. Returns the new geometry and words.
///
/// # Errors
/// [`Error::Layout`] when the codes are row-major already, [`Error::Length`] when `codes` does not fit the geometry.
pub fn deinterleave(geometry: &Geometry, codes: &[u32]) -> Result<(Geometry, Vec<u32>)> {
    if geometry.layout() != Layout::BlockPairs {
        return Err(Error::Layout(
            "the codes are row-major already: they must be interleaved",
        ));
    }
    rearrange(geometry, codes, Layout::Rows)
}

fn rearrange(from: &Geometry, codes: &[u32], layout: Layout) -> Result<(Geometry, Vec<u32>)> {
    let to = from.with_layout(layout)?;
    expect_length("the array of code words", codes.len(), from.words())?;
    let wpb = from.format().words_per_block();
    let mut moved = vec![0; codes.len()];
    for row in 0..from.rows() {
        for block in 0..from.blocks_per_row() {
            let (source, target) = (from.block_offset(row, block), to.block_offset(row, block));
            moved[target..target + wpb].copy_from_slice(&codes[source..source + wpb]);
        }
    }
    Ok((to, moved))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Format};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn the_inverse_restores_the_words(bits in 1_u32..=8, rows in 1_usize..5, pairs in 1_usize..4) {
            let format = Format::new(bits, 12, 32).unwrap();
            let rowwise = Geometry::new(format, Axis::Output, Layout::Rows, rows, pairs * 64).unwrap();
            let codes: Vec<u32> = (0..rowwise.words() as u32).collect();
            let (paired, moved) = interleave(&rowwise, &codes).unwrap();
            prop_assert_eq!(paired.codes_shape(), vec![pairs, rows, 2 * bits as usize]);
            prop_assert_eq!(deinterleave(&paired, &moved).unwrap(), (rowwise, codes));
        }
    }

    #[test]
    fn words_move_as_documented() {
        let format = Format::new(3, 12, 256).unwrap();
        let rowwise = Geometry::new(format, Axis::Output, Layout::Rows, 5, 1024).unwrap();
        let codes: Vec<u32> = (0..rowwise.words() as u32).collect();
        let (paired, moved) = interleave(&rowwise, &codes).unwrap();
        for (row, block, word) in [(0, 0, 0), (4, 3, 23), (2, 1, 7), (3, 2, 0)] {
            let from = (row * 4 + block) * 24 + word;
            let to = ((block / 2) * 5 + row) * 48 + (block % 2) * 24 + word;
            assert_eq!(moved[to], codes[from]);
        }
        assert_eq!(paired.with_layout(Layout::Rows).unwrap(), rowwise);
    }

    #[test]
    fn what_cannot_be_paired_is_refused() {
        let format = Format::new(3, 12, 256).unwrap();
        let geometry = |axis, cols| Geometry::new(format, axis, Layout::Rows, 2, cols).unwrap();
        let odd = geometry(Axis::Output, 768);
        let error = interleave(&odd, &vec![0; odd.words()]).unwrap_err();
        assert_eq!(
            error,
            Error::BlockPairs {
                shape: vec![2, 72],
                pair: 48
            }
        );
        assert!(error.to_string().contains("complete block pairs"));
        let along_input = geometry(Axis::Input, 512);
        assert!(matches!(
            interleave(&along_input, &vec![0; along_input.words()]),
            Err(Error::Layout(_))
        ));
        let rowwise = geometry(Axis::Output, 512);
        let codes = vec![0; rowwise.words()];
        assert!(matches!(
            interleave(&rowwise, &codes[1..]),
            Err(Error::Length { .. })
        ));
        assert!(matches!(
            deinterleave(&rowwise, &codes),
            Err(Error::Layout(_))
        ));
        let (paired, moved) = interleave(&rowwise, &codes).unwrap();
        assert!(matches!(interleave(&paired, &moved), Err(Error::Layout(_))));
    }
}
