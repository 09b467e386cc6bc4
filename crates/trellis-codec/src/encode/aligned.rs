//! Float buffers whose rows of full registers never straddle cache lines.

use std::ops::{Deref, DerefMut};

const LINE: usize = 16;

/// One cache line of floats.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line {
    floats: [f32; LINE],
}

/// A growable buffer of floats that starts on a 64-byte boundary.
#[derive(Clone, Debug, Default)]
pub(crate) struct AlignedFloats(Vec<Line>);

impl AlignedFloats {
    /// Makes the buffer hold at least `len` floats; new ones are 0.
    pub(crate) fn grow(&mut self, len: usize) {
        if self.len() < len {
            self.0.resize(
                len.div_ceil(LINE),
                Line {
                    floats: [0.0; LINE],
                },
            );
        }
    }
}

impl From<&[f32]> for AlignedFloats {
    fn from(floats: &[f32]) -> Self {
        let mut buffer = Self::default();
        buffer.grow(floats.len());
        buffer[..floats.len()].copy_from_slice(floats);
        buffer
    }
}

impl Deref for AlignedFloats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: a `Line` is `LINE` floats without padding, so the lines are one run of initialised floats.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * LINE) }
    }
}

impl DerefMut for AlignedFloats {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as for `deref`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * LINE) }
    }
}
