//! NEON: four registers hold the 16 lanes.

#[allow(
    clippy::wildcard_imports,
    reason = "the intrinsics used here are too many to list"
)]
use std::arch::aarch64::*;

use super::layout::{byte, mask, shifts};
use super::{Kernel, Simd};

/// 64-bit Arm's vector instructions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Neon;

/// Scale and bias of a group, in every lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    scale: float32x4_t,
    bias: float32x4_t,
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

/// Where the second of the two overlapping loads that cover a block begins, in bytes.
///
/// Blocks of up to 4 bits have at most 16 bytes and are read as two loads of 8, wider ones as two
/// of 16: no byte outside the block is touched.
const fn second_load(bits: usize) -> usize {
    let width = if bits <= 4 { 8 } else { 16 };
    4 * bits - width
}

/// For each byte of lanes `4 * part` to `4 * part + 3`, its place in the two loads put side by
/// side; out of range, which reads as zero, for a lane's upper bytes.
const fn spread(bits: usize, part: usize) -> [u8; 16] {
    const ZERO: u8 = 0xff;
    let width = if bits <= 4 { 8 } else { 16 };
    let mut indices = [ZERO; 16];
    let mut i = 0;
    while i < 8 {
        let at = byte(bits, 4 * part + i / 2) + i % 2;
        let at = if at < width {
            at
        } else {
            at - second_load(bits) + width
        };
        // The byte after a block's last one holds nothing of it.
        let end = 2 * width;
        indices[4 * (i / 2) + i % 2] = if at < end { at as u8 } else { ZERO };
        i += 1;
    }
    indices
}

/// The four tables of [`spread`].
const fn spreads(bits: usize) -> [[u8; 16]; 4] {
    [
        spread(bits, 0),
        spread(bits, 1),
        spread(bits, 2),
        spread(bits, 3),
    ]
}

/// Lanes `4 * part` to `4 * part + 3` of a block: two weights a lane from bit 0 on, with unrelated
/// bits above them.
///
/// # Safety
///
/// `words` points at `BITS` words; NEON is enabled.
#[inline(always)]
unsafe fn pairs<const BITS: usize>(words: *const u32, part: usize) -> uint32x4_t {
    // SAFETY: the loads lie inside the block's `4 * BITS` bytes, and the tables are as long as
    // the registers that they are read into.
    unsafe {
        let bytes: *const u8 = words.cast();
        let second = const { second_load(BITS) };
        let spreads = const { spreads(BITS) };
        let spread = vld1q_u8(spreads[part].as_ptr());
        let lanes = if BITS <= 4 {
            let block = vcombine_u8(vld1_u8(bytes), vld1_u8(bytes.add(second)));
            vqtbl1q_u8(block, spread)
        } else {
            vqtbl2q_u8(
                uint8x16x2_t(vld1q_u8(bytes), vld1q_u8(bytes.add(second))),
                spread,
            )
        };
        let shifts = const { shifts(BITS) };
        let left = vnegq_s32(vreinterpretq_s32_u32(vld1q_u32(
            shifts[4 * part..].as_ptr(),
        )));
        vshlq_u32(vreinterpretq_u32_u8(lanes), left)
    }
}

/// The weights of the codes at each lane's low end.
///
/// # Safety
///
/// NEON is enabled.
#[inline(always)]
unsafe fn weights<const BITS: usize>(codes: uint32x4_t, group: &Group) -> float32x4_t {
    // SAFETY: register operations.
    unsafe {
        let codes = vandq_u32(codes, vdupq_n_u32(mask(BITS)));
        vfmaq_f32(group.bias, vcvtq_f32_u32(codes), group.scale)
    }
}

impl Simd for Neon {
    type Wide = [float32x4_t; 4];
    type Register = float32x4_t;
    type Group = Group;

    const REGISTER: usize = 4;
    const TILE_ROWS: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self::Wide {
        // SAFETY: a register operation.
        unsafe { [vdupq_n_f32(0.0); 4] }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::Wide {
        // SAFETY: a register operation.
        unsafe { [vdupq_n_f32(value); 4] }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::Wide {
        // SAFETY: the caller vouches for 16 floats.
        unsafe {
            [
                vld1q_f32(from),
                vld1q_f32(from.add(4)),
                vld1q_f32(from.add(8)),
                vld1q_f32(from.add(12)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, values: Self::Wide) {
        // SAFETY: the caller vouches for 16 floats.
        unsafe {
            vst1q_f32(to, values[0]);
            vst1q_f32(to.add(4), values[1]);
            vst1q_f32(to.add(8), values[2]);
            vst1q_f32(to.add(12), values[3]);
        }
    }

    #[inline(always)]
    unsafe fn mul_add(a: Self::Wide, b: Self::Wide, c: Self::Wide) -> Self::Wide {
        // SAFETY: register operations.
        unsafe {
            [
                vfmaq_f32(c[0], a[0], b[0]),
                vfmaq_f32(c[1], a[1], b[1]),
                vfmaq_f32(c[2], a[2], b[2]),
                vfmaq_f32(c[3], a[3], b[3]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn sum(values: Self::Wide) -> f32 {
        // SAFETY: register operations.
        unsafe {
            let low = vaddq_f32(values[0], values[2]);
            let high = vaddq_f32(values[1], values[3]);
            let four = vaddq_f32(low, high);
            let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
            vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
        }
    }

    #[inline(always)]
    unsafe fn group<const BITS: usize>(scale: f32, bias: f32) -> Group {
        // SAFETY: register operations.
        unsafe {
            Group {
                scale: vdupq_n_f32(scale),
                bias: vdupq_n_f32(bias),
            }
        }
    }

    #[inline(always)]
    unsafe fn decode<const BITS: usize>(
        words: *const u32,
        _window: bool,
        group: &Group,
    ) -> [Self::Wide; 2] {
        // SAFETY: the caller vouches for `BITS` words.
        unsafe {
            let pairs = [
                pairs::<BITS>(words, 0),
                pairs::<BITS>(words, 1),
                pairs::<BITS>(words, 2),
                pairs::<BITS>(words, 3),
            ];
            let right = vdupq_n_s32(-(BITS as i32));
            [
                [
                    weights::<BITS>(pairs[0], group),
                    weights::<BITS>(pairs[1], group),
                    weights::<BITS>(pairs[2], group),
                    weights::<BITS>(pairs[3], group),
                ],
                [
                    weights::<BITS>(vshlq_u32(pairs[0], right), group),
                    weights::<BITS>(vshlq_u32(pairs[1], right), group),
                    weights::<BITS>(vshlq_u32(pairs[2], right), group),
                    weights::<BITS>(vshlq_u32(pairs[3], right), group),
                ],
            ]
        }
    }

    #[inline(always)]
    unsafe fn load_register(from: *const f32) -> float32x4_t {
        // SAFETY: the caller vouches for 4 floats.
        unsafe { vld1q_f32(from) }
    }

    #[inline(always)]
    unsafe fn store_register(to: *mut f32, values: float32x4_t) {
        // SAFETY: the caller vouches for 4 floats.
        unsafe { vst1q_f32(to, values) }
    }

    #[inline(always)]
    unsafe fn mul_add_registers(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        // SAFETY: a register operation.
        unsafe { vfmaq_f32(c, a, b) }
    }

    #[inline(always)]
    unsafe fn prefetch(_address: *const u32) {}
}
