//! Where a block's weights lie in the packed bit stream, as constants for byte shuffles.
//!
//! A block is 32 consecutive weights of `BITS` bits: `4 * BITS` bytes that begin on a word. Every
//! level spreads it over 16 lanes, lane `l` taking weights `2l` and `2l + 1`: stream bits
//! `2l * BITS` up to `2l * BITS + 2 * BITS`. Those lie within 16 bits of the byte they begin in
//! for 2, 3, 4, 5, 6 and 8 bits alike, so that one byte shuffle and one shift by less than 8 put
//! a lane's two weights at its low end.

/// Lanes of an accumulator, on every level.
pub(crate) const LANES: usize = 16;

/// Weights in a block: two a lane.
pub(crate) const BLOCK: usize = 2 * LANES;

/// Words that a level reads of a block where it may read on past the block's end: loads of whole
/// registers are cheaper than loads of just a block.
pub(crate) const WINDOW: usize = 8;

/// The bits of one weight, set.
pub(crate) const fn mask(bits: usize) -> u32 {
    (1 << bits) - 1
}

/// The byte of the block in which lane `lane`'s two weights begin.
pub(crate) const fn byte(bits: usize, lane: usize) -> usize {
    2 * lane * bits / 8
}

/// How far into that byte they begin, in bits.
pub(crate) const fn shift(bits: usize, lane: usize) -> usize {
    2 * lane * bits % 8
}

/// The shifts of all lanes.
pub(crate) const fn shifts(bits: usize) -> [u32; LANES] {
    let mut shifts = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        shifts[lane] = shift(bits, lane) as u32;
        lane += 1;
    }
    shifts
}
