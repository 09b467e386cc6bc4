//! AVX2: two registers hold the 16 lanes.

#[allow(
    clippy::wildcard_imports,
    reason = "the intrinsics used here are too many to list"
)]
use std::arch::x86_64::*;

use trellis_codec::codebook::{INCREMENT, MULTIPLIER, OFFSET};

use super::{Kernel, Lanes, Layout};

/// AVX2 and FMA.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

/// Eight lanes begin on a byte, so both halves share byte numbers and shifts; the second starts `k` bytes later.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    bytes: __m256i,
    shifts: __m256i,
    mask: __m256i,
    half: usize,
}

/// Runs `kernel` with AVX2 and FMA enabled.
///
/// # Safety
///
/// The machine has the features named.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn enter<K: Kernel>(kernel: K) {
    // SAFETY: the features are enabled here, and the caller vouches for the machine.
    unsafe { kernel.run::<Avx2>() }
}

/// The codes of eight states.
///
/// # Safety
///
/// `from` points at 16 bytes; AVX2 is enabled.
#[inline(always)]
unsafe fn decode8(decoder: &Decoder, from: *const u8) -> __m256 {
    // SAFETY: the caller vouches for 16 bytes.
    unsafe {
        let window = _mm256_broadcastsi128_si256(_mm_loadu_si128(from.cast()));
        let bytes = _mm256_shuffle_epi8(window, decoder.bytes);
        let states = _mm256_and_si256(_mm256_srlv_epi32(bytes, decoder.shifts), decoder.mask);
        let product = _mm256_mullo_epi32(states, _mm256_set1_epi32(MULTIPLIER as i32));
        let z = _mm256_add_epi32(product, _mm256_set1_epi32(INCREMENT as i32));
        let pairs = _mm256_maddubs_epi16(z, _mm256_set1_epi8(1));
        let sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        _mm256_cvtepi32_ps(_mm256_sub_epi32(sums, _mm256_set1_epi32(OFFSET)))
    }
}

impl Lanes for Avx2 {
    type Floats = [__m256; 2];
    type Decoder = Decoder;
    const ROOMY: bool = false;

    #[inline(always)]
    unsafe fn zero() -> [__m256; 2] {
        // SAFETY: a register operation.
        unsafe { [_mm256_setzero_ps(); 2] }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> [__m256; 2] {
        // SAFETY: a register operation.
        unsafe { [_mm256_set1_ps(value); 2] }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> [__m256; 2] {
        // SAFETY: the caller vouches for 16 floats.
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, values: [__m256; 2]) {
        // SAFETY: the caller vouches for 16 floats.
        unsafe {
            _mm256_storeu_ps(to, values[0]);
            _mm256_storeu_ps(to.add(8), values[1]);
        }
    }

    #[inline(always)]
    unsafe fn mul_add(a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: register operations.
        unsafe {
            [
                _mm256_fmadd_ps(a[0], b[0], c[0]),
                _mm256_fmadd_ps(a[1], b[1], c[1]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn decoder(layout: &Layout) -> Decoder {
        let bytes: [u8; 32] = std::array::from_fn(|i| layout.bytes[i / 4] + (i % 4) as u8);
        // SAFETY: loads within the arrays.
        unsafe {
            Decoder {
                bytes: _mm256_loadu_si256(bytes.as_ptr().cast()),
                shifts: _mm256_loadu_si256(layout.shifts.as_ptr().cast()),
                mask: _mm256_set1_epi32(layout.mask as i32),
                half: usize::from(layout.bytes[8]),
            }
        }
    }

    #[inline(always)]
    unsafe fn decode(decoder: &Decoder, from: *const u8) -> [__m256; 2] {
        // SAFETY: the caller vouches for 32 bytes, and the second half starts at byte 8 at most.
        unsafe {
            [
                decode8(decoder, from),
                decode8(decoder, from.add(decoder.half)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u8) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}
