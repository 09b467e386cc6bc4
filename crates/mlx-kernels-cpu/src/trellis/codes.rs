//! The words of a coded weight, and the decoding of a part of one block.
//!
//! Positions are taken in the order of their bits, which is the reverse of the columns: position `u` of a block is its
//! column `T - 1 - u`. Sixteen positions take `2 k` bytes, so that every group begins on a byte. Only a block's last
//! group reads past its end, where the stream goes on at its beginning.

use std::ops::Range;

use trellis_codec::Geometry;

use super::GROUP;
use super::lanes::{Lanes, Layout, WINDOW};

/// The words with their geometry.
#[derive(Clone, Copy)]
pub(super) struct Codes<'a> {
    pub(super) geometry: &'a Geometry,
    words: &'a [u32],
}

/// Bytes before a block's end that its last group begins in, at most.
const TAIL: usize = 16;

impl<'a> Codes<'a> {
    /// `words` are as many as the geometry says, and blocks are whole groups.
    pub(super) fn new(geometry: &'a Geometry, words: &'a [u32]) -> Self {
        Self { geometry, words }
    }

    pub(super) fn layout(&self) -> Layout {
        let format = self.geometry.format();
        Layout::new(format.bits(), format.state_bits())
    }

    /// Groups of a block.
    pub(super) fn groups(&self) -> usize {
        self.geometry.format().block() / GROUP
    }

    /// Asks for the words of part of a block, as [`Codes::decode`] takes it; rows past the last do no harm.
    ///
    /// # Safety
    ///
    /// The instructions of `S` are enabled.
    #[inline(always)]
    pub(super) unsafe fn prefetch<S: Lanes>(
        &self,
        row: usize,
        block: usize,
        groups: &Range<usize>,
    ) {
        let group_bytes = 2 * self.geometry.format().bits() as usize;
        let start = self
            .words
            .as_ptr()
            .wrapping_add(self.geometry.block_offset(row, block))
            .cast::<u8>();
        for byte in (groups.start * group_bytes..groups.end * group_bytes).step_by(64) {
            // SAFETY: any address will do.
            unsafe { S::prefetch(start.wrapping_add(byte)) };
        }
    }

    /// Decodes the groups of one block to `decoded`, positions in the order of their bits.
    ///
    /// # Safety
    ///
    /// The instructions of `S` are enabled; the row, block and groups are the weight's; `decoded` has room for the
    /// groups' floats.
    #[inline(always)]
    pub(super) unsafe fn decode<S: Lanes>(
        &self,
        decoder: &S::Decoder,
        row: usize,
        block: usize,
        groups: &Range<usize>,
        decoded: *mut f32,
    ) {
        let format = self.geometry.format();
        let group_bytes = 2 * format.bits() as usize;
        let offset = self.geometry.block_offset(row, block);
        let words = &self.words[offset..offset + format.words_per_block()];
        let is_last = |group: usize| group + 1 == self.groups();
        // A group's window may reach past the block's end, which must not be the end of the words.
        let room = self.words.len() - offset - words.len() >= WINDOW / 4;
        if !room || words.len() < TAIL / 4 {
            let padded = padded(words);
            for (i, group) in groups.clone().enumerate() {
                // SAFETY: a whole window follows every group in the padded copy.
                unsafe {
                    let from = padded.as_ptr().cast::<u8>().add(group * group_bytes);
                    S::store(decoded.add(i * GROUP), S::decode(decoder, from));
                }
            }
            return;
        }
        let start = words.as_ptr().cast::<u8>();
        let whole = groups.end - usize::from(groups.end > groups.start && is_last(groups.end - 1));
        for (i, group) in (groups.start..whole).enumerate() {
            // SAFETY: the group begins inside the block, after which there is room for a window.
            unsafe {
                S::store(
                    decoded.add(i * GROUP),
                    S::decode(decoder, start.add(group * group_bytes)),
                );
            };
        }
        if whole < groups.end {
            let mut tail = [0_u32; TAIL / 4 + WINDOW / 4];
            tail[..TAIL / 4].copy_from_slice(&words[words.len() - TAIL / 4..]);
            tail[TAIL / 4] = words[0];
            // SAFETY: the last group's `2 k <= 16` bytes end where the block's beginning follows in `tail`, and a whole
            // window lies in it.
            unsafe {
                let from = tail.as_ptr().cast::<u8>().add(TAIL - group_bytes);
                S::store(
                    decoded.add((whole - groups.start) * GROUP),
                    S::decode(decoder, from),
                );
            }
        }
    }
}

/// The block's words, its first word again, and room for a window.
#[cold]
fn padded(words: &[u32]) -> Vec<u32> {
    let mut padded = Vec::with_capacity(words.len() + WINDOW / 4);
    padded.extend_from_slice(words);
    padded.push(words[0]);
    padded.resize(words.len() + WINDOW / 4, 0);
    padded
}
