//! Floats that begin on a cache line: a load of 16 lanes then touches one line and not two, which
//! is worth a third of the speed where everything comes from the first-level cache.

use std::ops::{Deref, DerefMut};

/// One cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

const LINE: usize = 16;

/// A buffer of zeros or of what was written since, aligned to a cache line.
#[derive(Debug, Default)]
pub(crate) struct AlignedFloats {
    lines: Vec<Line>,
    len: usize,
}

impl AlignedFloats {
    /// Makes the length `len`; what is new is zero, what was there stays.
    pub(crate) fn resize(&mut self, len: usize) {
        self.lines.resize(len.div_ceil(LINE), Line([0.0; LINE]));
        self.len = len;
    }
}

impl Deref for AlignedFloats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: the lines are `LINE` floats each, without gaps, and hold at least `len`.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for AlignedFloats {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_on_a_line_and_keep_their_contents() {
        let mut buffer = AlignedFloats::default();
        buffer.resize(17);
        assert_eq!(*buffer, [0.0; 17]);
        assert_eq!(buffer.as_ptr().align_offset(64), 0);
        buffer[16] = 3.0;
        buffer.resize(40);
        assert_eq!((buffer.len(), buffer[16], buffer[39]), (40, 3.0, 0.0));
        buffer.resize(2);
        assert_eq!(*buffer, [0.0; 2]);
    }
}
