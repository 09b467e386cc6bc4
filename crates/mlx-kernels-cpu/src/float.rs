//! Slices of the three float types that MLX's quantized operations take.

use std::fmt;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::Level;
use crate::simd::{self, Kernel, Simd};

/// A float element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FloatType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of a single: 8 bits of exponent and 8 of precision.
    Bf16,
}

impl fmt::Display for FloatType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
        })
    }
}

impl FloatType {
    /// Rounds each value to the nearest that the type has, ties to even.
    pub(crate) fn round(self, values: &mut [f32]) {
        match self {
            Self::F32 => {}
            Self::F16 => {
                let mut narrow = [f16::ZERO; 64];
                for values in values.chunks_mut(narrow.len()) {
                    let narrow = &mut narrow[..values.len()];
                    narrow.convert_from_f32_slice(values);
                    narrow.convert_to_f32_slice(values);
                }
            }
            Self::Bf16 => {
                for value in values {
                    *value = f32::from_bits(u32::from(bf16_bits(*value)) << 16);
                }
            }
        }
    }
}

/// `value` rounded to a brain float, ties to even; without a branch, so that loops vectorize.
#[inline(always)]
fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    (if value.is_nan() { quiet } else { rounded }) as u16
}

/// Widens brain floats.
struct WidenBf16<'a> {
    values: &'a [bf16],
    widened: &'a mut [f32],
}

impl Kernel for WidenBf16<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for (wide, value) in self.widened.iter_mut().zip(self.values) {
            *wide = f32::from_bits(u32::from(value.to_bits()) << 16);
        }
    }
}

/// Rounds to brain floats.
struct NarrowBf16<'a> {
    values: &'a [f32],
    narrowed: &'a mut [bf16],
}

impl NarrowBf16<'_> {
    /// With the instructions of the caller.
    #[inline(always)]
    fn run_inline(self) {
        for (narrow, &value) in self.narrowed.iter_mut().zip(self.values) {
            *narrow = bf16::from_bits(bf16_bits(value));
        }
    }
}

impl Kernel for NarrowBf16<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        self.run_inline();
    }
}

/// Values from which on a loop is worth entering for its instructions.
const LOOP: usize = 32;

/// A borrowed slice of floats.
#[derive(Debug, Clone, Copy)]
pub enum Floats<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Half precision.
    F16(&'a [f16]),
    /// Brain floats.
    Bf16(&'a [bf16]),
}

impl Floats<'_> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::Bf16(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type.
    #[must_use]
    pub fn float_type(&self) -> FloatType {
        match self {
            Self::F32(_) => FloatType::F32,
            Self::F16(_) => FloatType::F16,
            Self::Bf16(_) => FloatType::Bf16,
        }
    }

    /// Writes the elements from `start` on to `widened`, exactly.
    pub(crate) fn widen_into(&self, start: usize, widened: &mut [f32]) {
        let range = start..start + widened.len();
        match self {
            Self::F32(values) => widened.copy_from_slice(&values[range]),
            Self::F16(values) => values[range].convert_to_f32_slice(widened),
            Self::Bf16(values) => {
                simd::enter(
                    Level::best(),
                    WidenBf16 {
                        values: &values[range],
                        widened,
                    },
                );
            }
        }
    }
}

impl<'a> From<&'a [f32]> for Floats<'a> {
    fn from(values: &'a [f32]) -> Self {
        Self::F32(values)
    }
}

impl<'a> From<&'a [f16]> for Floats<'a> {
    fn from(values: &'a [f16]) -> Self {
        Self::F16(values)
    }
}

impl<'a> From<&'a [bf16]> for Floats<'a> {
    fn from(values: &'a [bf16]) -> Self {
        Self::Bf16(values)
    }
}

/// A slice of floats to write to.
#[derive(Debug)]
pub enum FloatsMut<'a> {
    /// Single precision.
    F32(&'a mut [f32]),
    /// Half precision.
    F16(&'a mut [f16]),
    /// Brain floats.
    Bf16(&'a mut [bf16]),
}

impl FloatsMut<'_> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::Bf16(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type.
    #[must_use]
    pub fn float_type(&self) -> FloatType {
        match self {
            Self::F32(_) => FloatType::F32,
            Self::F16(_) => FloatType::F16,
            Self::Bf16(_) => FloatType::Bf16,
        }
    }

    /// The same slice, to read.
    pub(crate) fn as_floats(&self) -> Floats<'_> {
        match self {
            Self::F32(values) => Floats::F32(values),
            Self::F16(values) => Floats::F16(values),
            Self::Bf16(values) => Floats::Bf16(values),
        }
    }

    /// The same slice for threads that write disjoint parts of it.
    pub(crate) fn shared(&mut self) -> SharedFloats {
        match self {
            Self::F32(values) => SharedFloats::F32(values.as_mut_ptr()),
            Self::F16(values) => SharedFloats::F16(values.as_mut_ptr()),
            Self::Bf16(values) => SharedFloats::Bf16(values.as_mut_ptr()),
        }
    }
}

impl<'a> From<&'a mut [f32]> for FloatsMut<'a> {
    fn from(values: &'a mut [f32]) -> Self {
        Self::F32(values)
    }
}

impl<'a> From<&'a mut [f16]> for FloatsMut<'a> {
    fn from(values: &'a mut [f16]) -> Self {
        Self::F16(values)
    }
}

impl<'a> From<&'a mut [bf16]> for FloatsMut<'a> {
    fn from(values: &'a mut [bf16]) -> Self {
        Self::Bf16(values)
    }
}

/// The start of a [`FloatsMut`], for threads that write disjoint parts of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SharedFloats {
    F32(*mut f32),
    F16(*mut f16),
    Bf16(*mut bf16),
}

// SAFETY: the pointers are only written through `write`, whose callers keep to disjoint ranges.
unsafe impl Send for SharedFloats {}
// SAFETY: as above.
unsafe impl Sync for SharedFloats {}

impl SharedFloats {
    /// Rounds `values` to the element type, ties to even, and writes them from `start` on.
    ///
    /// # Safety
    ///
    /// * `start .. start + values.len()` lies within the slice this was made from.
    /// * That slice is still mutably borrowed, and no other thread touches the range meanwhile.
    pub(crate) unsafe fn write(self, start: usize, values: &[f32]) {
        let count = values.len();
        match self {
            Self::F32(base) => {
                // SAFETY: the caller's obligations are those of `from_raw_parts_mut`.
                let target = unsafe { std::slice::from_raw_parts_mut(base.add(start), count) };
                target.copy_from_slice(values);
            }
            Self::F16(base) => {
                // SAFETY: as above.
                let target = unsafe { std::slice::from_raw_parts_mut(base.add(start), count) };
                target.convert_from_f32_slice(values);
            }
            Self::Bf16(base) => {
                // SAFETY: as above.
                let target = unsafe { std::slice::from_raw_parts_mut(base.add(start), count) };
                let narrowing = NarrowBf16 {
                    values,
                    narrowed: target,
                };
                if count < LOOP {
                    narrowing.run_inline();
                } else {
                    simd::enter(Level::best(), narrowing);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brain_floats_round_as_half_does() {
        let specials = [
            0_u32,
            0x7f7f_ffff,
            0x7f80_0000,
            0x7f80_0001,
            0x7fc0_0000,
            1,
            0x0080_0000,
        ];
        let ties = (0..64).flat_map(|i| {
            let middle = 0x3f80_8000 + (i << 16);
            [middle - 1, middle, middle + 1]
        });
        for bits in specials.into_iter().chain(ties) {
            for bits in [bits, bits | 0x8000_0000] {
                let value = f32::from_bits(bits);
                assert_eq!(
                    bf16_bits(value),
                    bf16::from_f32(value).to_bits(),
                    "{bits:#x}"
                );
            }
        }
    }

    #[test]
    fn rounding_in_place_keeps_what_the_type_has() {
        let third = 1.0_f32 / 3.0;
        for (float_type, expected) in [
            (FloatType::F32, third),
            (FloatType::F16, f16::from_f32(third).to_f32()),
            (FloatType::Bf16, bf16::from_f32(third).to_f32()),
        ] {
            let mut values = vec![third; 131];
            float_type.round(&mut values);
            assert_eq!(values, vec![expected; 131]);
        }
    }
}
