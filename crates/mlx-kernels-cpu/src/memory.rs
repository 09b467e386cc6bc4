//! Advice to the system about the memory that weights lie in.

/// Asks the system to put `words` into huge pages now; says whether it did.
///
/// Reading weights from huge pages is some 5 to 10% faster at one row, where memory is what bounds
/// a product. The pages are copied once, at a few milliseconds a megabyte, so that this is for
/// weights that are read many times, after they are loaded. Contents and addresses stay the same.
///
/// Only Linux 6.1 and later can do so; elsewhere, and for slices that hold no whole huge page,
/// nothing happens.
#[must_use]
pub fn collapse_to_huge_pages(words: &[u32]) -> bool {
    #[cfg(target_os = "linux")]
    {
        linux::collapse(words)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = words;
        false
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::c_void;

    /// A huge page with 4 KiB pages, on x86-64 and on aarch64.
    const HUGE_PAGE: usize = 2 << 20;

    /// `MADV_COLLAPSE`.
    const COLLAPSE: i32 = 25;

    pub(super) fn collapse(words: &[u32]) -> bool {
        let bytes = words.as_ptr_range();
        let start = (bytes.start as usize).next_multiple_of(HUGE_PAGE);
        let end = bytes.end as usize / HUGE_PAGE * HUGE_PAGE;
        if start >= end {
            return false;
        }
        let skipped = start - bytes.start as usize;
        let first = bytes
            .start
            .cast::<u8>()
            .wrapping_add(skipped)
            .cast_mut()
            .cast::<c_void>();
        // SAFETY: the range lies within the slice. The call changes which pages hold it, neither
        // its address nor its contents; on failure it changes nothing.
        unsafe { libc::madvise(first, end - start, COLLAPSE) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay() {
        let words: Vec<u32> = (0..3 << 20).collect();
        // Whether the system can is its own affair.
        let _ = collapse_to_huge_pages(&words);
        assert!(words.iter().zip(0..).all(|(&word, i)| word == i));
    }

    #[test]
    fn small_slices_are_left_alone() {
        assert!(!collapse_to_huge_pages(&[]));
        assert!(!collapse_to_huge_pages(&[1; 1000]));
    }
}
