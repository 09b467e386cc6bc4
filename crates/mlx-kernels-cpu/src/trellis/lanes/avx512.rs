//! AVX-512 with byte permutations and byte dot products (Ice Lake, Zen 4 and later).

#[allow(
    clippy::wildcard_imports,
    reason = "the intrinsics used here are too many to list"
)]
use std::arch::x86_64::*;

use trellis_codec::codebook::{INCREMENT, MULTIPLIER, OFFSET};

use super::{Kernel, Lanes, Layout};

/// AVX-512 F, BW, VL, VBMI and VNNI.
#[derive(Clone, Copy)]
pub(super) struct Avx512;

/// The four bytes of each lane, its shift, and the mask of a state.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    bytes: __m512i,
    shifts: __m512i,
    mask: __m512i,
}

/// Runs `kernel` with AVX-512 enabled.
///
/// # Safety
///
/// The machine has the features named.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn enter<K: Kernel>(kernel: K) {
    // SAFETY: the features are enabled here, and the caller vouches for the machine.
    unsafe { kernel.run::<Avx512>() }
}

impl Lanes for Avx512 {
    type Floats = __m512;
    type Decoder = Decoder;
    const ROOMY: bool = true;

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
    unsafe fn decoder(layout: &Layout) -> Decoder {
        let bytes: [u8; 64] = std::array::from_fn(|i| layout.bytes[i / 4] + (i % 4) as u8);
        // SAFETY: loads of whole arrays.
        unsafe {
            Decoder {
                bytes: _mm512_loadu_si512(bytes.as_ptr().cast()),
                shifts: _mm512_loadu_si512(layout.shifts.as_ptr().cast()),
                mask: _mm512_set1_epi32(layout.mask as i32),
            }
        }
    }

    #[inline(always)]
    unsafe fn decode(decoder: &Decoder, from: *const u8) -> __m512 {
        // SAFETY: the caller vouches for 32 bytes.
        unsafe {
            let window = _mm512_castsi256_si512(_mm256_loadu_si256(from.cast()));
            let bytes = _mm512_permutexvar_epi8(decoder.bytes, window);
            let states = _mm512_and_si512(_mm512_srlv_epi32(bytes, decoder.shifts), decoder.mask);
            let product = _mm512_mullo_epi32(states, _mm512_set1_epi32(MULTIPLIER as i32));
            let z = _mm512_add_epi32(product, _mm512_set1_epi32(INCREMENT as i32));
            let codes = _mm512_dpbusd_epi32(_mm512_set1_epi32(-OFFSET), z, _mm512_set1_epi8(1));
            _mm512_cvtepi32_ps(codes)
        }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u8) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}
