//! Four floats in a 128-bit Arm register.

use std::arch::aarch64::{
    float32x4_t, vdupq_n_f32, vfmaq_f32, vld1q_f32, vminq_f32, vst1q_f32, vsubq_f32, vzip1q_f32,
    vzip2q_f32,
};

use super::Lanes;

impl Lanes for float32x4_t {
    const WIDTH: usize = 4;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller has NEON.
        unsafe { vdupq_n_f32(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller has NEON and the floats.
        unsafe { vld1q_f32(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller has NEON and room for the floats.
        unsafe { vst1q_f32(to, self) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: the caller has NEON.
        unsafe { vsubq_f32(self, other) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: the caller has NEON.
        unsafe { vfmaq_f32(addend, self, factor) }
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: the caller has NEON.
        unsafe { vminq_f32(self, other) }
    }

    #[inline(always)]
    unsafe fn zip(self, other: Self) -> (Self, Self) {
        // SAFETY: the caller has NEON.
        unsafe { (vzip1q_f32(self, other), vzip2q_f32(self, other)) }
    }
}
