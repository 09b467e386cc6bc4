//! Plain arrays of 16 floats, for machines without a level of their own and as the plainest
//! statement of what the levels do.

use super::Simd;
use super::layout::{LANES, byte, mask, shift};

/// No particular instructions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

/// Scale and bias of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    scale: f32,
    bias: f32,
}

impl Simd for Portable {
    type Wide = [f32; LANES];
    type Register = [f32; 4];
    type Group = Group;

    const REGISTER: usize = 4;
    const TILE_ROWS: usize = 2;

    #[inline(always)]
    unsafe fn zero() -> Self::Wide {
        [0.0; LANES]
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::Wide {
        [value; LANES]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::Wide {
        // SAFETY: the caller vouches for 16 floats.
        unsafe { from.cast::<Self::Wide>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, values: Self::Wide) {
        // SAFETY: the caller vouches for 16 floats.
        unsafe { to.cast::<Self::Wide>().write_unaligned(values) }
    }

    #[inline(always)]
    unsafe fn mul_add(a: Self::Wide, b: Self::Wide, c: Self::Wide) -> Self::Wide {
        std::array::from_fn(|lane| a[lane] * b[lane] + c[lane])
    }

    #[inline(always)]
    unsafe fn sum(values: Self::Wide) -> f32 {
        let mut values = values;
        for half in [8, 4, 2, 1] {
            for lane in 0..half {
                values[lane] += values[lane + half];
            }
        }
        values[0]
    }

    #[inline(always)]
    unsafe fn group<const BITS: usize>(scale: f32, bias: f32) -> Group {
        Group { scale, bias }
    }

    #[inline(always)]
    unsafe fn decode<const BITS: usize>(
        words: *const u32,
        _window: bool,
        group: &Group,
    ) -> [Self::Wide; 2] {
        let mut bytes = [0; 4 * 8 + 1];
        for word in 0..BITS {
            // SAFETY: a block has `BITS` words.
            let value = unsafe { words.add(word).read() };
            bytes[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
        }
        let pairs: [u32; LANES] = std::array::from_fn(|lane| {
            let first = byte(BITS, lane);
            u32::from(u16::from_le_bytes([bytes[first], bytes[first + 1]])) >> shift(BITS, lane)
        });
        let weight = |code: u32| group.scale * (code & mask(BITS)) as f32 + group.bias;
        [pairs.map(weight), pairs.map(|pair| weight(pair >> BITS))]
    }

    #[inline(always)]
    unsafe fn load_register(from: *const f32) -> Self::Register {
        // SAFETY: the caller vouches for a register of floats.
        unsafe { from.cast::<Self::Register>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store_register(to: *mut f32, values: Self::Register) {
        // SAFETY: the caller vouches for a register of floats.
        unsafe { to.cast::<Self::Register>().write_unaligned(values) }
    }

    #[inline(always)]
    unsafe fn mul_add_registers(
        a: Self::Register,
        b: Self::Register,
        c: Self::Register,
    ) -> Self::Register {
        std::array::from_fn(|lane| a[lane] * b[lane] + c[lane])
    }

    #[inline(always)]
    unsafe fn prefetch(_address: *const u32) {}
}
