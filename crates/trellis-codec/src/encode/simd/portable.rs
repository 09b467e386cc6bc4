//! Lanes in plain Rust: arrays that the compiler may vectorise, and single floats for codes too small to fill one.

use super::Lanes;

/// Eight floats.
#[derive(Clone, Copy)]
pub(crate) struct F32x8([f32; 8]);

impl F32x8 {
    fn map2(self, other: Self, op: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| op(self.0[i], other.0[i])))
    }
}

impl Lanes for F32x8 {
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 8])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller has eight floats there; an array of f32 read unaligned needs nothing more.
        Self(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller has room for eight floats there.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.map2(other, |a, b| a - b)
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(std::array::from_fn(|i| {
            self.0[i].mul_add(factor.0[i], addend.0[i])
        }))
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        self.map2(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    unsafe fn zip(self, other: Self) -> (Self, Self) {
        let lane = |i: usize| {
            if i.is_multiple_of(2) {
                self.0[i / 2]
            } else {
                other.0[i / 2]
            }
        };
        (
            Self(std::array::from_fn(lane)),
            Self(std::array::from_fn(|i| lane(i + 8))),
        )
    }
}

impl Lanes for f32 {
    const WIDTH: usize = 1;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        value
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller has a float there.
        unsafe { from.read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller has room for a float there.
        unsafe { to.write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self - other
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self {
        f32::mul_add(self, factor, addend)
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        if self < other { self } else { other }
    }

    #[inline(always)]
    unsafe fn zip(self, other: Self) -> (Self, Self) {
        (self, other)
    }
}
