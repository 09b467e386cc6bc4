//! One generic algorithm, several instruction sets.
//!
//! Kernels are written once over [`Simd`], whose methods are thin wrappers of intrinsics and are
//! inlined into a caller that has the instructions enabled. A kernel is entered through
//! [`enter`], the only place where a [`Level`] turns into code.
//!
//! An accumulator has 16 lanes on every level ([`layout::LANES`]), whatever the registers hold,
//! and is folded in one fixed order, so that all levels with fused multiply-add give the same
//! bits. The portable one rounds products before it adds them.

use std::fmt;
use std::sync::OnceLock;

pub(crate) mod layout;
mod portable;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

/// A set of instructions that kernels can be run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// x86-64 with AVX-512 F, BW, VL and VBMI (Ice Lake, Zen 4 and later).
    Avx512,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// 64-bit Arm.
    Neon,
    /// No particular instructions.
    Portable,
}

impl Level {
    /// Every level, best first.
    pub const ALL: [Self; 4] = [Self::Avx512, Self::Avx2, Self::Neon, Self::Portable];

    /// Whether this machine can run it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi")
                    && Self::Avx2.is_available()
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::Portable => true,
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// The levels that this machine can run, best first; never empty.
    #[must_use]
    pub fn available() -> Vec<Self> {
        Self::ALL
            .into_iter()
            .filter(|level| level.is_available())
            .collect()
    }

    /// The best level that this machine can run.
    #[must_use]
    pub fn best() -> Self {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Self::available()[0])
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Portable => "portable",
        })
    }
}

/// The operations that kernels are made of.
///
/// # Safety
///
/// Every method may be called only where the level's instructions are available and enabled:
/// from inside a [`Kernel`] that [`enter`] runs. Pointers must be valid for what the method says
/// it reads or writes; no alignment is asked for.
pub(crate) trait Simd: Copy {
    /// 16 floats: an accumulator.
    type Wide: Copy;
    /// As many floats as a register holds.
    type Register: Copy;
    /// What turns a group's codes into weights: a table of them, or scale and bias.
    type Group: Copy;

    /// Floats in a register; a divisor of 16.
    const REGISTER: usize;
    /// Rows of four accumulators each, in registers, that the register file has room for.
    const TILE_ROWS: usize;

    /// 16 zeros.
    unsafe fn zero() -> Self::Wide;
    /// `value` in every lane.
    unsafe fn splat(value: f32) -> Self::Wide;
    /// Reads 16 floats.
    unsafe fn load(from: *const f32) -> Self::Wide;
    /// Writes 16 floats.
    unsafe fn store(to: *mut f32, values: Self::Wide);
    /// `a * b + c`, lane by lane.
    unsafe fn mul_add(a: Self::Wide, b: Self::Wide, c: Self::Wide) -> Self::Wide;
    /// The sum of the lanes: `i` and `i + 8` first, then `i` and `i + 4`, then 2, then 1.
    unsafe fn sum(values: Self::Wide) -> f32;
    /// Four such sums, each added in that order.
    #[inline(always)]
    unsafe fn sum_four(values: [Self::Wide; 4]) -> [f32; 4] {
        let [a, b, c, d] = values;
        // SAFETY: the caller has the instructions enabled.
        unsafe { [Self::sum(a), Self::sum(b), Self::sum(c), Self::sum(d)] }
    }

    /// Prepares the decoding of a group's codes.
    unsafe fn group<const BITS: usize>(scale: f32, bias: f32) -> Self::Group;
    /// Reads one block (`BITS` words: 32 weights; [`layout::WINDOW`] words if `window` says that they
    /// are there) and gives its weights
    /// `scale * q + bias`, rounded once where the level has fused multiply-add: the even ones,
    /// then the odd ones.
    unsafe fn decode<const BITS: usize>(
        words: *const u32,
        window: bool,
        group: &Self::Group,
    ) -> [Self::Wide; 2];

    /// Reads one register of floats.
    unsafe fn load_register(from: *const f32) -> Self::Register;
    /// Writes one register of floats.
    unsafe fn store_register(to: *mut f32, values: Self::Register);
    /// As [`Simd::mul_add`], on registers.
    unsafe fn mul_add_registers(
        a: Self::Register,
        b: Self::Register,
        c: Self::Register,
    ) -> Self::Register;

    /// Asks for the cache line of an address that will soon be read. Any address will do.
    unsafe fn prefetch(address: *const u32);
}

/// A kernel that is generic over the instructions.
pub(crate) trait Kernel {
    /// Runs the kernel.
    ///
    /// # Safety
    ///
    /// The instructions of `S` are available and enabled in the caller; implementations are
    /// `#[inline(always)]`, so that this carries over to them.
    unsafe fn run<S: Simd>(self);
}

/// Runs `kernel` with the instructions of `level`.
///
/// # Panics
///
/// If the level is not available here; [`crate::Execution::check`] says so before.
pub(crate) fn enter<K: Kernel>(level: Level, kernel: K) {
    assert!(
        level == Level::best() || level.is_available(),
        "{level} is not available on this machine"
    );
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level is available.
        Level::Avx512 => unsafe { avx512::enter(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level is available.
        Level::Avx2 => unsafe { avx2::enter(kernel) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the level is available.
        Level::Neon => unsafe { neon::enter(kernel) },
        // SAFETY: the portable level needs nothing.
        _ => unsafe { kernel.run::<portable::Portable>() },
    }
}
