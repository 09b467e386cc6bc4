//! AVX2 with FMA: two registers hold the 16 lanes.

#[allow(
    clippy::wildcard_imports,
    reason = "the intrinsics used here are too many to list"
)]
use std::arch::x86_64::*;

use super::layout::{byte, mask, shifts};
use super::{Kernel, Simd};

/// AVX2, FMA and F16C.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2;

/// Scale and bias of a group, in every lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    scale: __m256,
    bias: __m256,
}

/// Runs `kernel` with AVX2 enabled.
///
/// # Safety
///
/// The machine has the features named.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn enter<K: Kernel>(kernel: K) {
    // SAFETY: the features are enabled here, and the caller vouches for the machine.
    unsafe { kernel.run::<Avx2>() }
}

/// The sum of eight lanes: `i` and `i + 4` first, then 2, then 1.
///
/// # Safety
///
/// AVX is enabled.
#[inline(always)]
pub(super) unsafe fn sum8(values: __m256) -> f32 {
    // SAFETY: register operations.
    unsafe {
        let four = _mm_add_ps(
            _mm256_castps256_ps128(values),
            _mm256_extractf128_ps::<1>(values),
        );
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// Four such sums: lanes of several vectors are brought side by side and added together.
///
/// # Safety
///
/// AVX is enabled.
#[inline(always)]
unsafe fn sum8_four([a, b, c, d]: [__m256; 4]) -> [f32; 4] {
    // SAFETY: register operations, and a store of four floats into as many.
    unsafe {
        // Lanes i and i + 4, of two vectors at a time.
        let ab = _mm256_add_ps(
            _mm256_permute2f128_ps::<0x20>(a, b),
            _mm256_permute2f128_ps::<0x31>(a, b),
        );
        let cd = _mm256_add_ps(
            _mm256_permute2f128_ps::<0x20>(c, d),
            _mm256_permute2f128_ps::<0x31>(c, d),
        );
        // Lanes i and i + 2: then a, a, c, c in the lower half and b, b, d, d in the upper.
        let two = _mm256_add_ps(
            _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
        );
        let one = _mm256_add_ps(two, _mm256_movehdup_ps(two));
        let (ac, bd) = (_mm256_castps256_ps128(one), _mm256_extractf128_ps::<1>(one));
        let mut sums = [0.0; 4];
        // a, c, b, d, from every other lane; then in their order.
        let acbd = _mm_shuffle_ps::<0b10_00_10_00>(ac, bd);
        _mm_storeu_ps(
            sums.as_mut_ptr(),
            _mm_shuffle_ps::<0b11_01_10_00>(acbd, acbd),
        );
        sums
    }
}

/// Which words of the block go to each 128-bit half before the byte shuffle, for lanes
/// `8 * part` to `8 * part + 7`. A half's four lanes begin in word `first` and, with at most 5
/// bytes from there, end within the two words after it.
const fn gather(bits: usize, part: usize) -> [u32; 8] {
    let mut words = [0; 8];
    let mut i = 0;
    while i < 8 {
        let first = byte(bits, 8 * part + i / 4 * 4) / 4;
        let word = first + i % 4;
        words[i] = if word < 8 { word as u32 } else { 7 };
        i += 1;
    }
    words
}

/// The byte shuffle within each half that brings each lane the two bytes its weights lie in.
const fn spread(bits: usize, part: usize) -> [u8; 32] {
    const ZERO: u8 = 0x80;
    let mut indices = [ZERO; 32];
    let mut i = 0;
    while i < 8 {
        let first = byte(bits, 8 * part + i / 4 * 4) / 4 * 4;
        let start = byte(bits, 8 * part + i) - first;
        indices[4 * i] = start as u8;
        indices[4 * i + 1] = start as u8 + 1;
        i += 1;
    }
    indices
}

/// Lanes that a load of `bits` words reads.
const fn present(bits: usize) -> [i32; 8] {
    let mut lanes = [0; 8];
    let mut i = 0;
    while i < bits {
        lanes[i] = -1;
        i += 1;
    }
    lanes
}

/// Lanes `8 * part` to `8 * part + 7` of a block: two weights a lane from bit 0 on, with unrelated
/// bits above them.
///
/// # Safety
///
/// `words` points at `BITS` words, or a window if `window`; AVX2 is enabled.
#[inline(always)]
unsafe fn pairs<const BITS: usize>(words: *const u32, window: bool, part: usize) -> __m256i {
    // SAFETY: 4-bit blocks have 16 bytes, 8-bit ones 32, and the mask admits `BITS` words. The
    // tables are as long as the registers that they are read into.
    unsafe {
        let bytes: *const u8 = words.cast();
        match BITS {
            4 => _mm256_cvtepu8_epi32(_mm_loadl_epi64(bytes.add(8 * part).cast())),
            8 => _mm256_cvtepu16_epi32(_mm_loadu_si128(bytes.add(16 * part).cast())),
            _ => {
                let present = const { present(BITS) };
                let present = _mm256_loadu_si256(present.as_ptr().cast());
                let gathers = const { [gather(BITS, 0), gather(BITS, 1)] };
                let gather = _mm256_loadu_si256(gathers[part].as_ptr().cast());
                let spreads = const { [spread(BITS, 0), spread(BITS, 1)] };
                let spread = _mm256_loadu_si256(spreads[part].as_ptr().cast());
                let shifts = const { shifts(BITS) };
                let shifts = _mm256_loadu_si256(shifts[8 * part..].as_ptr().cast());
                let block = if window {
                    _mm256_loadu_si256(words.cast())
                } else {
                    _mm256_maskload_epi32(words.cast(), present)
                };
                let words = _mm256_permutevar8x32_epi32(block, gather);
                _mm256_srlv_epi32(_mm256_shuffle_epi8(words, spread), shifts)
            }
        }
    }
}

/// The weights of the codes at each lane's low end.
///
/// # Safety
///
/// AVX2 and FMA are enabled.
#[inline(always)]
unsafe fn weights<const BITS: usize>(codes: __m256i, group: &Group) -> __m256 {
    // SAFETY: register operations.
    unsafe {
        let codes = _mm256_and_si256(codes, _mm256_set1_epi32(mask(BITS) as i32));
        _mm256_fmadd_ps(_mm256_cvtepi32_ps(codes), group.scale, group.bias)
    }
}

impl Simd for Avx2 {
    type Wide = [__m256; 2];
    type Register = __m256;
    type Group = Group;

    const REGISTER: usize = 8;
    const TILE_ROWS: usize = 3;

    #[inline(always)]
    unsafe fn zero() -> Self::Wide {
        // SAFETY: a register operation.
        unsafe { [_mm256_setzero_ps(); 2] }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::Wide {
        // SAFETY: a register operation.
        unsafe { [_mm256_set1_ps(value); 2] }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::Wide {
        // SAFETY: the caller vouches for 16 floats.
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, values: Self::Wide) {
        // SAFETY: the caller vouches for 16 floats.
        unsafe {
            _mm256_storeu_ps(to, values[0]);
            _mm256_storeu_ps(to.add(8), values[1]);
        }
    }

    #[inline(always)]
    unsafe fn mul_add(a: Self::Wide, b: Self::Wide, c: Self::Wide) -> Self::Wide {
        // SAFETY: register operations.
        unsafe {
            [
                _mm256_fmadd_ps(a[0], b[0], c[0]),
                _mm256_fmadd_ps(a[1], b[1], c[1]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn sum(values: Self::Wide) -> f32 {
        // SAFETY: register operations.
        unsafe { sum8(_mm256_add_ps(values[0], values[1])) }
    }

    #[inline(always)]
    unsafe fn sum_four([a, b, c, d]: [Self::Wide; 4]) -> [f32; 4] {
        // SAFETY: register operations.
        unsafe {
            sum8_four([
                _mm256_add_ps(a[0], a[1]),
                _mm256_add_ps(b[0], b[1]),
                _mm256_add_ps(c[0], c[1]),
                _mm256_add_ps(d[0], d[1]),
            ])
        }
    }

    #[inline(always)]
    unsafe fn group<const BITS: usize>(scale: f32, bias: f32) -> Group {
        // SAFETY: register operations.
        unsafe {
            Group {
                scale: _mm256_set1_ps(scale),
                bias: _mm256_set1_ps(bias),
            }
        }
    }

    #[inline(always)]
    unsafe fn decode<const BITS: usize>(
        words: *const u32,
        window: bool,
        group: &Group,
    ) -> [Self::Wide; 2] {
        // SAFETY: the caller vouches for `BITS` words.
        unsafe {
            let (low, high) = (
                pairs::<BITS>(words, window, 0),
                pairs::<BITS>(words, window, 1),
            );
            let shift = _mm256_set1_epi32(BITS as i32);
            let (odd_low, odd_high) = (
                _mm256_srlv_epi32(low, shift),
                _mm256_srlv_epi32(high, shift),
            );
            [
                [weights::<BITS>(low, group), weights::<BITS>(high, group)],
                [
                    weights::<BITS>(odd_low, group),
                    weights::<BITS>(odd_high, group),
                ],
            ]
        }
    }

    #[inline(always)]
    unsafe fn load_register(from: *const f32) -> __m256 {
        // SAFETY: the caller vouches for 8 floats.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_register(to: *mut f32, values: __m256) {
        // SAFETY: the caller vouches for 8 floats.
        unsafe { _mm256_storeu_ps(to, values) }
    }

    #[inline(always)]
    unsafe fn mul_add_registers(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: a register operation.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u32) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}
