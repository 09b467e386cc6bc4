//! AVX-512: one register holds all 16 lanes.
//!
//! Up to 5 bits a group's weights are looked up: the table of all `scale * q + bias` sits in one
//! register (two for 5 bits), and a lane permutation, which looks at the low 4 (or 5) bits of
//! each index only, replaces mask, conversion and multiply-add. Wider codes are converted.

#[allow(
    clippy::wildcard_imports,
    reason = "the intrinsics used here are too many to list"
)]
use std::arch::x86_64::*;

use super::avx2::sum8;
use super::layout::{LANES, byte, mask, shifts};
use super::{Kernel, Simd};

/// AVX-512 F, BW, VL and VBMI.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512;

/// Up to 5 bits the weights of codes 0 to 15 and 16 to 31; else scale and bias in every lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group(__m512, __m512);

/// Runs `kernel` with AVX-512 enabled.
///
/// # Safety
///
/// The machine has the features named.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx2,fma,f16c")]
pub(super) unsafe fn enter<K: Kernel>(kernel: K) {
    // SAFETY: the features are enabled here, and the caller vouches for the machine.
    unsafe { kernel.run::<Avx512>() }
}

/// The byte shuffle that brings each lane the two bytes its weights lie in.
const fn spread(bits: usize) -> [u8; 64] {
    let mut indices = [0; 64];
    let mut lane = 0;
    while lane < LANES {
        let mut i = 0;
        while i < 4 {
            indices[4 * lane + i] = (byte(bits, lane) + i) as u8;
            i += 1;
        }
        lane += 1;
    }
    indices
}

/// The block's weights, two a lane from bit 0 on, with unrelated bits above them.
///
/// # Safety
///
/// `words` points at `BITS` words, or a window if `window`; AVX-512 is enabled.
#[inline(always)]
unsafe fn pairs<const BITS: usize>(words: *const u32, window: bool) -> __m512i {
    // SAFETY: 4-bit blocks have 16 bytes, 8-bit ones 32, and the masks admit `BITS` words.
    unsafe {
        match BITS {
            4 => _mm512_cvtepu8_epi32(_mm_loadu_si128(words.cast())),
            8 => _mm512_cvtepu16_epi32(_mm256_loadu_si256(words.cast())),
            _ => {
                let block = match (BITS, window) {
                    (2, _) => _mm256_castsi128_si256(_mm_loadl_epi64(words.cast())),
                    (3, true) => _mm256_castsi128_si256(_mm_loadu_si128(words.cast())),
                    (_, true) => _mm256_loadu_si256(words.cast()),
                    _ => _mm256_maskz_loadu_epi32(((1u32 << BITS) - 1) as u8, words.cast()),
                };
                let spread = const { spread(BITS) };
                let spread = _mm512_loadu_si512(spread.as_ptr().cast());
                let shifts = const { shifts(BITS) };
                let shifts = _mm512_loadu_si512(shifts.as_ptr().cast());
                let bytes = _mm512_permutexvar_epi8(spread, _mm512_castsi256_si512(block));
                _mm512_srlv_epi32(bytes, shifts)
            }
        }
    }
}

/// The weights of the codes at each lane's low end.
///
/// # Safety
///
/// AVX-512 is enabled.
#[inline(always)]
unsafe fn weights<const BITS: usize>(codes: __m512i, group: &Group) -> __m512 {
    // SAFETY: register operations.
    unsafe {
        match BITS {
            2..=4 => _mm512_permutexvar_ps(codes, group.0),
            5 => _mm512_permutex2var_ps(group.0, codes, group.1),
            _ => {
                let codes = _mm512_and_si512(codes, _mm512_set1_epi32(mask(BITS) as i32));
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(codes), group.0, group.1)
            }
        }
    }
}

impl Simd for Avx512 {
    type Wide = __m512;
    type Register = __m512;
    type Group = Group;

    const REGISTER: usize = 16;
    const TILE_ROWS: usize = 6;

    #[inline(always)]
    unsafe fn zero() -> __m512 {
        // SAFETY: a register operation.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m512 {
        // SAFETY: a register operation.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m512 {
        // SAFETY: the caller vouches for 16 floats.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, values: __m512) {
        // SAFETY: the caller vouches for 16 floats.
        unsafe { _mm512_storeu_ps(to, values) }
    }

    #[inline(always)]
    unsafe fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: a register operation.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn sum(values: __m512) -> f32 {
        // SAFETY: register operations.
        unsafe {
            let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(values)));
            sum8(_mm256_add_ps(_mm512_castps512_ps256(values), high))
        }
    }

    #[inline(always)]
    unsafe fn sum_four([a, b, c, d]: [__m512; 4]) -> [f32; 4] {
        // SAFETY: register operations, and a store of four floats into as many.
        unsafe {
            // Lanes i and i + 8: a in the lower half, b in the upper; likewise c and d.
            let ab = _mm512_add_ps(
                _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b),
                _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b),
            );
            let cd = _mm512_add_ps(
                _mm512_shuffle_f32x4::<0b01_00_01_00>(c, d),
                _mm512_shuffle_f32x4::<0b11_10_11_10>(c, d),
            );
            // Lanes i and i + 4: a quarter each, from a to d.
            let four = _mm512_add_ps(
                _mm512_shuffle_f32x4::<0b10_00_10_00>(ab, cd),
                _mm512_shuffle_f32x4::<0b11_01_11_01>(ab, cd),
            );
            let two = _mm512_add_ps(four, _mm512_permute_ps::<0b11_10_11_10>(four));
            let one = _mm512_add_ps(two, _mm512_movehdup_ps(two));
            let firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
            let mut sums = [0.0; 4];
            let gathered = _mm512_permutexvar_ps(firsts, one);
            _mm_storeu_ps(sums.as_mut_ptr(), _mm512_castps512_ps128(gathered));
            sums
        }
    }

    #[inline(always)]
    unsafe fn group<const BITS: usize>(scale: f32, bias: f32) -> Group {
        // SAFETY: register operations.
        unsafe {
            let (scale, bias) = (_mm512_set1_ps(scale), _mm512_set1_ps(bias));
            if BITS > 5 {
                return Group(scale, bias);
            }
            let top = mask(BITS) as i32;
            let codes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let low = _mm512_cvtepi32_ps(_mm512_and_si512(codes, _mm512_set1_epi32(top)));
            let low = _mm512_fmadd_ps(low, scale, bias);
            if BITS < 5 {
                return Group(low, low);
            }
            let high = _mm512_cvtepi32_ps(_mm512_add_epi32(codes, _mm512_set1_epi32(16)));
            Group(low, _mm512_fmadd_ps(high, scale, bias))
        }
    }

    #[inline(always)]
    unsafe fn decode<const BITS: usize>(
        words: *const u32,
        window: bool,
        group: &Group,
    ) -> [__m512; 2] {
        // SAFETY: the caller vouches for `BITS` words.
        unsafe {
            let pairs = pairs::<BITS>(words, window);
            let odd = _mm512_srlv_epi32(pairs, _mm512_set1_epi32(BITS as i32));
            [weights::<BITS>(pairs, group), weights::<BITS>(odd, group)]
        }
    }

    #[inline(always)]
    unsafe fn load_register(from: *const f32) -> __m512 {
        // SAFETY: the caller vouches for 16 floats.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_register(to: *mut f32, values: __m512) {
        // SAFETY: the caller vouches for 16 floats.
        unsafe { _mm512_storeu_ps(to, values) }
    }

    #[inline(always)]
    unsafe fn mul_add_registers(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: a register operation.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u32) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}
