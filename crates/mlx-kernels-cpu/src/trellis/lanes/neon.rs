//! NEON: four registers hold the 16 lanes.

#[allow(
    clippy::wildcard_imports,
    reason = "the intrinsics used here are too many to list"
)]
use std::arch::aarch64::*;

use trellis_codec::codebook::{INCREMENT, MULTIPLIER, OFFSET};

use super::{Kernel, Lanes, Layout};

/// 64-bit Arm.
#[derive(Clone, Copy)]
pub(super) struct Neon;

/// For each quarter of the lanes their bytes and their shifts (negative: to the right), and the mask of a state.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    bytes: [uint8x16_t; 4],
    shifts: [int32x4_t; 4],
    mask: uint32x4_t,
}

/// Runs `kernel` with NEON enabled.
///
/// # Safety
///
/// The machine has NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn enter<K: Kernel>(kernel: K) {
    // SAFETY: the feature is enabled here, and the caller vouches for the machine.
    unsafe { kernel.run::<Neon>() }
}

impl Lanes for Neon {
    type Floats = [float32x4_t; 4];
    type Decoder = Decoder;
    const ROOMY: bool = false;

    #[inline(always)]
    unsafe fn zero() -> [float32x4_t; 4] {
        // SAFETY: a register operation.
        unsafe { [vdupq_n_f32(0.0); 4] }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> [float32x4_t; 4] {
        // SAFETY: a register operation.
        unsafe { [vdupq_n_f32(value); 4] }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> [float32x4_t; 4] {
        // SAFETY: the caller vouches for 16 floats.
        std::array::from_fn(|i| unsafe { vld1q_f32(from.add(4 * i)) })
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, values: [float32x4_t; 4]) {
        for (i, value) in values.into_iter().enumerate() {
            // SAFETY: the caller vouches for 16 floats.
            unsafe { vst1q_f32(to.add(4 * i), value) };
        }
    }

    #[inline(always)]
    unsafe fn mul_add(
        a: [float32x4_t; 4],
        b: [float32x4_t; 4],
        c: [float32x4_t; 4],
    ) -> [float32x4_t; 4] {
        // SAFETY: a register operation.
        std::array::from_fn(|i| unsafe { vfmaq_f32(c[i], a[i], b[i]) })
    }

    #[inline(always)]
    unsafe fn decoder(layout: &Layout) -> Decoder {
        let bytes: [u8; 64] = std::array::from_fn(|i| layout.bytes[i / 4] + (i % 4) as u8);
        let shifts: [i32; 16] = std::array::from_fn(|i| -(layout.shifts[i] as i32));
        // SAFETY: loads within the arrays.
        unsafe {
            Decoder {
                bytes: std::array::from_fn(|i| vld1q_u8(bytes.as_ptr().add(16 * i))),
                shifts: std::array::from_fn(|i| vld1q_s32(shifts.as_ptr().add(4 * i))),
                mask: vdupq_n_u32(layout.mask),
            }
        }
    }

    #[inline(always)]
    unsafe fn decode(decoder: &Decoder, from: *const u8) -> [float32x4_t; 4] {
        // SAFETY: the caller vouches for 32 bytes.
        unsafe {
            let window = vld1q_u8_x2(from);
            std::array::from_fn(|i| {
                let bytes = vreinterpretq_u32_u8(vqtbl2q_u8(window, decoder.bytes[i]));
                let states = vandq_u32(vshlq_u32(bytes, decoder.shifts[i]), decoder.mask);
                let z = vmlaq_u32(vdupq_n_u32(INCREMENT), states, vdupq_n_u32(MULTIPLIER));
                let sums = vpaddlq_u16(vpaddlq_u8(vreinterpretq_u8_u32(z)));
                vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(sums), vdupq_n_s32(OFFSET)))
            })
        }
    }

    #[inline(always)]
    unsafe fn prefetch(_address: *const u8) {}
}
