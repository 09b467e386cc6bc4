//! Plain Rust.

use trellis_codec::codebook::integer_code;

use super::{Lanes, Layout};

/// No particular instructions.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Lanes for Portable {
    type Floats = [f32; 16];
    type Decoder = Layout;
    const ROOMY: bool = false;

    #[inline(always)]
    unsafe fn zero() -> [f32; 16] {
        [0.0; 16]
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> [f32; 16] {
        [value; 16]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 16] {
        // SAFETY: the caller vouches for 16 floats.
        unsafe { from.cast::<[f32; 16]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, values: [f32; 16]) {
        // SAFETY: the caller vouches for 16 floats.
        unsafe { to.cast::<[f32; 16]>().write_unaligned(values) }
    }

    #[inline(always)]
    unsafe fn mul_add(a: [f32; 16], b: [f32; 16], c: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }

    #[inline(always)]
    unsafe fn decoder(layout: &Layout) -> Layout {
        *layout
    }

    #[inline(always)]
    unsafe fn decode(layout: &Layout, from: *const u8) -> [f32; 16] {
        std::array::from_fn(|lane| {
            // SAFETY: the caller vouches for 32 bytes; the last lane's four begin at byte 15 at most.
            let bytes = unsafe {
                from.add(usize::from(layout.bytes[lane]))
                    .cast::<[u8; 4]>()
                    .read()
            };
            let state = u32::from_le_bytes(bytes) >> layout.shifts[lane] & layout.mask;
            integer_code(state as u16) as f32
        })
    }

    #[inline(always)]
    unsafe fn prefetch(_address: *const u8) {}
}
