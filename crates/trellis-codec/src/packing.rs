//! The bit stream of a block and the states that read it.
//!
//! A block of `T` weights is a closed walk over `2^L` states in which each step shifts `k` bits in:
//! `s(t+1) = (s(t) * 2^k + b(t+1)) mod 2^L`, cyclically. Symbols are stored in reversed time, `b(t)` at bit
//! `(T-1-t) * k`, so that a state is the plain window of `L` bits that starts there, wrapping inside the block.

use crate::error::expect_length;
use crate::{Error, Format, Result};

/// The state of position `t` of a block of words.
///
/// # Panics
/// When `words` is not one block of `format` or `t` is not a position of it.
#[must_use]
pub fn state_at(format: Format, words: &[u32], t: usize) -> u16 {
    let bit = (format.block() - 1 - t) * format.bits() as usize;
    let (word, offset) = (bit / 32, bit % 32);
    let next = if word + 1 == format.words_per_block() {
        0
    } else {
        word + 1
    };
    let pair = u64::from(words[word]) | u64::from(words[next]) << 32;
    ((pair >> offset) & ((1 << format.state_bits()) - 1)) as u16
}

/// The states of whole blocks, in order of position.
///
/// # Errors
/// [`Error::Length`] when `words` is not a whole number of blocks.
pub fn unpack(format: Format, words: &[u32]) -> Result<Vec<u16>> {
    let wpb = format.words_per_block();
    expect_length(
        "the array of code words",
        words.len(),
        words.len().next_multiple_of(wpb),
    )?;
    let mut states = Vec::with_capacity(words.len() / wpb * format.block());
    for block in words.chunks_exact(wpb) {
        states.extend((0..format.block()).map(|t| state_at(format, block, t)));
    }
    Ok(states)
}

/// Packs the states of whole blocks into words; only the low `k` bits of each state are stored.
///
/// # Errors
/// [`Error::Length`] when `states` is not a whole number of blocks, [`Error::BrokenPath`] when a block is no closed
/// walk through the trellis (it would not decode to the same states).
pub fn pack(format: Format, states: &[u16]) -> Result<Vec<u32>> {
    let block = format.block();
    expect_length(
        "the array of states",
        states.len(),
        states.len().next_multiple_of(block),
    )?;
    let mut words = vec![0; states.len() / block * format.words_per_block()];
    for (states, words) in states
        .chunks_exact(block)
        .zip(words.chunks_exact_mut(format.words_per_block()))
    {
        check_path(format, states)?;
        pack_block(format, states, words);
    }
    Ok(words)
}

/// Checks that the states of one block form a closed walk.
///
/// # Errors
/// [`Error::BrokenPath`] with the first position that does not follow its predecessor.
pub fn check_path(format: Format, states: &[u16]) -> Result<()> {
    let Some(&last) = states.last() else {
        return Ok(());
    };
    let mut previous = last;
    for (position, &state) in states.iter().enumerate() {
        let shared = usize::from(previous) & (format.overlaps() - 1);
        if usize::from(previous) >= format.states() || usize::from(state) >> format.bits() != shared
        {
            return Err(Error::BrokenPath {
                position,
                state,
                previous,
            });
        }
        previous = state;
    }
    Ok(())
}

/// Packs one block of states; `words` is overwritten.
pub(crate) fn pack_block(format: Format, states: &[u16], words: &mut [u32]) {
    let bits = format.bits() as usize;
    let mask = (format.symbols() - 1) as u64;
    words.fill(0);
    for (u, &state) in states.iter().rev().enumerate() {
        let (word, offset) = (u * bits / 32, u * bits % 32);
        let symbol = (u64::from(state) & mask) << offset;
        words[word] |= symbol as u32;
        if offset + bits > 32 {
            words[word + 1] |= (symbol >> 32) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn formats() -> impl Strategy<Value = Format> {
        (
            1_u32..=8,
            prop::sample::select(vec![32_usize, 96, 128, 192, 256, 512]),
        )
            .prop_flat_map(|(k, block)| (Just(k), k + 1..=16, Just(block)))
            .prop_map(|(k, state_bits, block)| Format::new(k, state_bits, block).unwrap())
    }

    fn words(format: Format) -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(any::<u32>(), 2 * format.words_per_block())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_words_are_a_closed_walk_and_come_back((format, words) in formats().prop_flat_map(|f| (Just(f), words(f)))) {
            let states = unpack(format, &words).unwrap();
            for block in states.chunks_exact(format.block()) {
                check_path(format, block).unwrap();
            }
            prop_assert_eq!(pack(format, &states).unwrap(), words);
        }

        #[test]
        fn a_state_is_the_concatenation_of_symbols((format, words) in formats().prop_flat_map(|f| (Just(f), words(f)))) {
            let states = unpack(format, &words[..format.words_per_block()]).unwrap();
            let (block, bits) = (format.block(), format.bits());
            for t in 0..block {
                let mut expected = 0_u64;
                for back in (0..16).rev() {
                    let symbol = u64::from(states[(t + 16 * block - back) % block]) & (format.symbols() as u64 - 1);
                    expected = expected << bits | symbol;
                }
                prop_assert_eq!(u64::from(states[t]), expected & (format.states() as u64 - 1));
            }
        }
    }

    #[test]
    fn worked_example() {
        let format = Format::new(3, 12, 256).unwrap();
        let mut states = vec![0_u16; 256];
        states[..4].copy_from_slice(&[1, 8, 64, 512]);
        let words = pack(format, &states).unwrap();
        let mut expected = vec![0; 24];
        expected[23] = 0x2000_0000;
        assert_eq!(words, expected);
        assert_eq!(unpack(format, &words).unwrap(), states);
    }

    #[test]
    fn broken_walks_and_lengths_are_refused() {
        let format = Format::new(2, 12, 32).unwrap();
        let mut states = vec![0_u16; 32];
        states[5] = 1;
        assert_eq!(
            pack(format, &states),
            Err(Error::BrokenPath {
                position: 6,
                state: 0,
                previous: 1
            })
        );
        states[5] = 4;
        assert_eq!(
            pack(format, &states),
            Err(Error::BrokenPath {
                position: 5,
                state: 4,
                previous: 0
            })
        );
        assert_eq!(
            pack(format, &[4096; 32]),
            Err(Error::BrokenPath {
                position: 0,
                state: 4096,
                previous: 4096
            })
        );
        assert_eq!(
            pack(format, &states[..31]),
            Err(Error::Length {
                what: "the array of states",
                found: 31,
                expected: 32
            })
        );
        assert_eq!(
            unpack(format, &[0; 3]),
            Err(Error::Length {
                what: "the array of code words",
                found: 3,
                expected: 4
            })
        );
    }
}
