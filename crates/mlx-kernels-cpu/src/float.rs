//! Slices of the three float types that MLX's quantized operations take.

use std::fmt;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

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
                for (wide, value) in widened.iter_mut().zip(&values[range]) {
                    *wide = f32::from_bits(u32::from(value.to_bits()) << 16);
                }
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
                for (narrow, &value) in target.iter_mut().zip(values) {
                    *narrow = bf16::from_f32(value);
                }
            }
        }
    }
}
