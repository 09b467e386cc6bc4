//! The vector registers that the Viterbi step is written over, and the choice among them at run time.
//!
//! Every level computes the same f32 operations on the same numbers: one subtraction, one fused multiply-add and a
//! minimum, which is exact in any order. So all levels give the same codes, bit for bit.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod portable;

/// A register of f32 lanes.
///
/// # Safety
/// Every function needs the instruction set of the implementing type. `load` and `store` need `WIDTH` valid floats at
/// the pointer, which need not be aligned.
pub(crate) trait Lanes: Copy {
    /// Floats in a register.
    const WIDTH: usize;

    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn sub(self, other: Self) -> Self;
    /// `self * factor + addend`, rounded once.
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self;
    unsafe fn min(self, other: Self) -> Self;
    /// The lanes of both, alternating: the first `WIDTH` of them, then the rest.
    unsafe fn zip(self, other: Self) -> (Self, Self);
}

/// An instruction set the encoder can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SimdLevel {
    /// No assumption about the machine.
    Portable,
    /// 128-bit Arm registers.
    Neon,
    /// 256-bit x86 registers with fused multiply-add.
    Avx2,
    /// 512-bit x86 registers.
    Avx512,
}

impl SimdLevel {
    /// The levels this machine has, slowest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        #[allow(
            unused_mut,
            reason = "other architectures have the portable level only"
        )]
        let mut levels = vec![Self::Portable];
        #[cfg(target_arch = "aarch64")]
        levels.push(Self::Neon);
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi2")
            {
                levels.push(Self::Avx2);
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi2")
            {
                levels.push(Self::Avx512);
            }
        }
        levels
    }

    /// The fastest level of this machine.
    #[must_use]
    pub fn detect() -> Self {
        Self::available().pop().unwrap_or(Self::Portable)
    }

    /// Floats in a register of this level.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Portable | Self::Avx2 => 8,
            Self::Neon => 4,
            Self::Avx512 => 16,
        }
    }
}
