//! Tail-biting: a walk that ends where it began (QTIP's algorithm 4).
//!
//! A first, unconstrained pass over a window around the block's seam finds the overlap the walk should cross the seam
//! with; a second pass over the block starts and ends in it. QTIP's first pass is the whole block rotated by half.
//! A path's choice at the seam hardly depends on samples further than some constraint lengths (`L / k` positions)
//! away, so a shorter window does nearly as well: see [`window`].

use super::simd::{Lanes, SimdLevel, portable::F32x8};
use super::viterbi::{History, Start, Trellis, best_end, forward, trace_back};
use crate::Format;

/// How a walk should cross the seam of its block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seam {
    /// The overlap between the last state and the first.
    pub(crate) overlap: usize,
    /// Squared error of the best walk through the window, both ends free.
    pub(crate) cost: f32,
}

/// Working memory of one thread: `4 (T + 1) 2^(L-k)` bytes and a few blocks.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    history: History,
    window: Vec<f32>,
    discarded: Vec<u16>,
}

/// Samples around the seam that decide it.
///
/// Relative error above that of a whole block's window, on Gaussian blocks of 256 at `L = 12`: 0.06 % for k = 2 (160
/// samples), 0.08 % for k = 3 and 0.04 % for k = 4 (128). At k = 1 anything shorter costs 0.2 % and more.
pub(crate) fn window(format: Format) -> usize {
    let samples = match format.bits() {
        1 => 256,
        2 => 160,
        _ => 128,
    };
    samples.min(format.block())
}

/// Finds the seam of a block of normalized samples.
pub(crate) fn find_seam(
    level: SimdLevel,
    trellis: &Trellis,
    samples: &[f32],
    scratch: &mut Scratch,
) -> Seam {
    match level {
        // SAFETY: an encoder is built only for levels that the machine has, its trellis for the level's width.
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => unsafe { avx512::find_seam(trellis, samples, scratch) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => unsafe { avx2::find_seam(trellis, samples, scratch) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        SimdLevel::Neon => unsafe { neon::find_seam(trellis, samples, scratch) },
        // SAFETY: the portable lanes need no instruction set.
        _ => unsafe { find_seam_with::<F32x8>(trellis, samples, scratch) },
    }
}

/// Encodes a block of normalized samples as a walk that crosses the seam with `overlap`.
pub(crate) fn close_walk(
    level: SimdLevel,
    trellis: &Trellis,
    samples: &[f32],
    overlap: usize,
    scratch: &mut Scratch,
    states: &mut [u16],
) {
    match level {
        // SAFETY: as in `find_seam`.
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => unsafe {
            avx512::close_walk(trellis, samples, overlap, scratch, states);
        },
        // SAFETY: as in `find_seam`.
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => unsafe {
            avx2::close_walk(trellis, samples, overlap, scratch, states);
        },
        // SAFETY: as in `find_seam`.
        #[cfg(target_arch = "aarch64")]
        SimdLevel::Neon => unsafe {
            neon::close_walk(trellis, samples, overlap, scratch, states);
        },
        // SAFETY: the portable lanes need no instruction set.
        _ => unsafe { close_walk_with::<F32x8>(trellis, samples, overlap, scratch, states) },
    }
}

/// Instantiates both passes with an instruction set enabled, so that the lanes' instructions are inlined.
macro_rules! level {
    ($name:ident, $lanes:ty, $features:literal) => {
        mod $name {
            use super::{Scratch, Seam, Trellis};

            /// # Safety
            /// The machine must have the features, and `trellis` be built for the width of the lanes.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn find_seam(
                trellis: &Trellis,
                samples: &[f32],
                scratch: &mut Scratch,
            ) -> Seam {
                // SAFETY: the caller's.
                unsafe { super::find_seam_with::<$lanes>(trellis, samples, scratch) }
            }

            /// # Safety
            /// As `find_seam`.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn close_walk(
                trellis: &Trellis,
                samples: &[f32],
                overlap: usize,
                scratch: &mut Scratch,
                states: &mut [u16],
            ) {
                // SAFETY: the caller's.
                unsafe {
                    super::close_walk_with::<$lanes>(trellis, samples, overlap, scratch, states);
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
level!(avx512, std::arch::x86_64::__m512, "avx512f,fma,bmi2");
#[cfg(target_arch = "x86_64")]
level!(avx2, std::arch::x86_64::__m256, "avx2,fma,bmi2");
#[cfg(target_arch = "aarch64")]
level!(neon, std::arch::aarch64::float32x4_t, "neon");

/// # Safety
/// As [`forward`].
#[inline(always)]
unsafe fn find_seam_with<V: Lanes>(
    trellis: &Trellis,
    samples: &[f32],
    scratch: &mut Scratch,
) -> Seam {
    let Scratch {
        history,
        window: around,
        discarded,
    } = scratch;
    let len = window(trellis.format());
    let before = len / 2;
    around.clear();
    around.extend_from_slice(&samples[samples.len() - before..]);
    around.extend_from_slice(&samples[..len - before]);
    discarded.resize(len - before, 0);
    // SAFETY: the caller's.
    unsafe { forward::<V>(trellis, around, Start::Anywhere, history) };
    let (end, cost) = best_end(trellis, history, len);
    let overlap = trace_back(trellis, history, around, end, before, discarded);
    Seam { overlap, cost }
}

/// # Safety
/// As [`forward`].
#[inline(always)]
unsafe fn close_walk_with<V: Lanes>(
    trellis: &Trellis,
    samples: &[f32],
    overlap: usize,
    scratch: &mut Scratch,
    states: &mut [u16],
) {
    // SAFETY: the caller's.
    unsafe {
        forward::<V>(
            trellis,
            samples,
            Start::Overlap(overlap),
            &mut scratch.history,
        );
    };
    trace_back(trellis, &scratch.history, samples, overlap, 0, states);
}
