//! The vector operations that the kernels are made of, 16 lanes at a time on every level, and the choice among levels.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use crate::Level;

/// Bytes that [`Lanes::decode`] may read.
pub(super) const WINDOW: usize = 32;

/// Where the states of 16 successive positions lie: lane `i` from bit `i * k` on. A lane's four bytes from the one its
/// state begins in hold all of it, since `7 + L` is at most 23 bits.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// The first of each lane's four bytes.
    pub(super) bytes: [u8; 16],
    /// How far into it the state begins, in bits.
    pub(super) shifts: [u32; 16],
    /// The bits of a state, set.
    pub(super) mask: u32,
}

impl Layout {
    pub(super) fn new(bits: u32, state_bits: u32) -> Self {
        let bits = bits as usize;
        Self {
            bytes: std::array::from_fn(|lane| (lane * bits / 8) as u8),
            shifts: std::array::from_fn(|lane| (lane * bits % 8) as u32),
            mask: (1 << state_bits) - 1,
        }
    }
}

/// Sixteen floats, and the decoding of sixteen states.
///
/// # Safety
///
/// Every method may be called only where the level's instructions are available and enabled, from inside a [`Kernel`]
/// that [`enter`] runs. Pointers are valid for 16 floats, or as the method says; no alignment is asked for.
pub(super) trait Lanes: Copy {
    /// Sixteen floats.
    type Floats: Copy;
    /// A [`Layout`] in registers.
    type Decoder: Copy;
    /// Whether the registers hold 16 accumulators.
    const ROOMY: bool;

    unsafe fn zero() -> Self::Floats;
    unsafe fn splat(value: f32) -> Self::Floats;
    unsafe fn load(from: *const f32) -> Self::Floats;
    unsafe fn store(to: *mut f32, values: Self::Floats);
    /// `a * b + c`, rounded once.
    unsafe fn mul_add(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;

    unsafe fn decoder(layout: &Layout) -> Self::Decoder;
    /// The integer codes of the 16 states that begin at `from`. Reads at most [`WINDOW`] bytes.
    unsafe fn decode(decoder: &Self::Decoder, from: *const u8) -> Self::Floats;
    /// Asks for the cache line of an address that will soon be read. Any address will do.
    unsafe fn prefetch(address: *const u8);
}

/// The sum of 16 lanes: `i` and `i + 8` first, then `i` and `i + 4`, then 2, then 1.
pub(super) fn sum(lanes: &[f32; 16]) -> f32 {
    let mut sums = *lanes;
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
    }
    sums[0]
}

/// A kernel that is generic over the instructions.
pub(super) trait Kernel {
    /// Runs the kernel.
    ///
    /// # Safety
    ///
    /// The instructions of `S` are available and enabled in the caller; implementations are `#[inline(always)]`, so that
    /// this carries over to them.
    unsafe fn run<S: Lanes>(self);
}

/// Runs `kernel` with the instructions of an available `level`, or with AVX2 where AVX-512 lacks its byte products.
pub(super) fn enter<K: Kernel>(level: Level, kernel: K) {
    assert!(
        level.is_available(),
        "{level} is not available on this machine"
    );
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level is available, and so are the byte products.
        Level::Avx512 if is_x86_feature_detected!("avx512vnni") => unsafe { avx512::enter(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level is available; AVX-512 includes AVX2.
        Level::Avx512 | Level::Avx2 => unsafe { avx2::enter(kernel) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the level is available.
        Level::Neon => unsafe { neon::enter(kernel) },
        // SAFETY: the portable level needs nothing.
        _ => unsafe { kernel.run::<portable::Portable>() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trellis_codec::codebook;

    /// Decodes sixteen states and compares them with the definition.
    struct Check<'a> {
        layout: &'a Layout,
        bits: usize,
        bytes: &'a [u8; WINDOW],
    }

    impl Kernel for Check<'_> {
        #[inline(always)]
        unsafe fn run<S: Lanes>(self) {
            let mut decoded = [0.0_f32; 16];
            // SAFETY: the window is whole, and the instructions are enabled.
            unsafe {
                let decoder = S::decoder(self.layout);
                S::store(
                    decoded.as_mut_ptr(),
                    S::decode(&decoder, self.bytes.as_ptr()),
                );
            }
            for (lane, y) in decoded.into_iter().enumerate() {
                let bit = |i: usize| u32::from(self.bytes[i / 8] >> (i % 8)) & 1;
                let window = (0..24).map(|i| bit(lane * self.bits + i) << i).sum::<u32>();
                let expected = codebook::integer_code((window & self.layout.mask) as u16);
                assert!(
                    (y - expected as f32).abs() < 0.5,
                    "lane {lane} of {} bits",
                    self.bits
                );
            }
        }
    }

    #[test]
    fn every_level_decodes_by_the_definition() {
        let mut state = 1_u32;
        for (bits, state_bits) in [
            (1, 2),
            (1, 12),
            (2, 12),
            (3, 12),
            (4, 12),
            (5, 12),
            (6, 12),
            (7, 16),
            (8, 16),
        ] {
            for _ in 0..200 {
                let bytes = std::array::from_fn(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                });
                let layout = Layout::new(bits, state_bits);
                for level in Level::available() {
                    enter(
                        level,
                        Check {
                            layout: &layout,
                            bits: bits as usize,
                            bytes: &bytes,
                        },
                    );
                }
            }
        }
    }

    #[test]
    fn sums_fold_halves() {
        let mut lanes = [0.0; 16];
        (lanes[0], lanes[8], lanes[15]) = (1e8, -1e8, 0.5);
        assert!((sum(&lanes) - 0.5).abs() < f32::EPSILON);
    }
}
