//! Memory of a launch: inputs and outputs, in place or between guard zones, and the poison in them.
//!
//! **Guard zones** are bytes with every bit set: NaN to a body that reads floats there. What is not
//! so after the run has been written.
//!
//! **Output poison** is a pattern that finished outputs should not hold: signalling NaNs for
//! floats, which arithmetic never gives, a byte that is no truth value for `bool`, arbitrary bits
//! for integers. An element that still holds it after the run is only suspected, since a body may
//! have put just these bits there. The launch then runs again with another pattern: an element that
//! follows the pattern both times was never written.

use crate::DType;

/// Bytes of a guard zone.
const ZONE: usize = 4096;
const GUARD: u8 = 0xff;
/// Vector loads of up to this many bytes are aligned.
pub const ALIGNMENT: usize = 16;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A copy of an array between guard zones, aligned to 64 bytes.
pub struct Guarded {
    memory: Vec<Line>,
    bytes: usize,
}

impl Guarded {
    pub fn new(bytes: usize) -> Self {
        Self {
            memory: vec![Line([GUARD; 64]); (bytes + 2 * ZONE).div_ceil(64)],
            bytes,
        }
    }

    pub fn copy_of(data: &[u8]) -> Self {
        let mut copy = Self::new(data.len());
        copy.data_mut().copy_from_slice(data);
        copy
    }

    fn all(&self) -> &[u8] {
        // SAFETY: the lines are plain bytes, contiguous, and borrowed as long as the slice.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.memory.len() * 64) }
    }

    pub fn data(&self) -> &[u8] {
        &self.all()[ZONE..ZONE + self.bytes]
    }

    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `all`, and borrowed mutably.
        let all = unsafe {
            std::slice::from_raw_parts_mut(
                self.memory.as_mut_ptr().cast::<u8>(),
                self.memory.len() * 64,
            )
        };
        &mut all[ZONE..ZONE + self.bytes]
    }

    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        // Derived from the whole allocation, since bodies may stray into the zones.
        self.memory.as_mut_ptr().cast::<u8>().wrapping_add(ZONE)
    }

    /// Offset of a byte in a zone that has been written, from the start of the data: the nearest
    /// one.
    pub fn trespass(&self) -> Option<isize> {
        let all = self.all();
        let after = all[ZONE + self.bytes..].iter().position(|&b| b != GUARD);
        let before = all[..ZONE].iter().rposition(|&b| b != GUARD);
        after
            .map(|at| (self.bytes + at) as isize)
            .or_else(|| before.map(|at| at as isize - ZONE as isize))
    }
}

/// The two patterns of unwritten elements.
#[derive(Clone, Copy)]
pub enum Poison {
    First,
    Second,
}

fn pattern(dtype: DType, poison: Poison) -> Vec<u8> {
    let flip = matches!(poison, Poison::Second);
    let choose = |first: u64, second: u64| if flip { second } else { first };
    let bits = match dtype {
        DType::F32 => choose(0x7fa5_5aa5, 0xffa3_3ac5),
        DType::F16 => choose(0x7da5, 0xfcc3),
        DType::BF16 => choose(0x7fa5, 0xff93),
        DType::Bool => choose(0xa5, 0x5a),
        _ => choose(0xa55a_c33c_96e1_78a5, 0x5aa5_3cc3_691e_875a),
    };
    bits.to_le_bytes()[..dtype.size()].to_vec()
}

/// Fills an output with poison.
pub fn poison(data: &mut [u8], dtype: DType, poison: Poison) {
    fill(data, &pattern(dtype, poison));
}

/// Fills an output with one value.
pub fn initialise(data: &mut [u8], dtype: DType, value: f32) {
    fill(data, &dtype.encode(value));
}

fn fill(data: &mut [u8], element: &[u8]) {
    for each in data.chunks_exact_mut(element.len()) {
        each.copy_from_slice(element);
    }
}

/// Indices of elements that hold the pattern.
pub fn poisoned(data: &[u8], dtype: DType, poison: Poison) -> Vec<usize> {
    let element = pattern(dtype, poison);
    let holds = |(index, each): (usize, &[u8])| (each == element).then_some(index);
    data.chunks_exact(element.len())
        .enumerate()
        .filter_map(holds)
        .collect()
}

/// Index of the element that holds the byte at `offset`, rounding away from the buffer's start.
pub fn element_of(offset: isize, dtype: DType) -> isize {
    offset.div_euclid(dtype.size() as isize)
}
