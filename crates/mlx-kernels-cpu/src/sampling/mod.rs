//! Between logits and a token: greedy choice and vocabulary masks.

mod argmax;
mod bitmask;
mod normalizer;

pub use argmax::{greedy_token, normalized_argmax};
pub use bitmask::apply_token_bitmask;

/// Logits that are widened and looked at together.
const BLOCK: usize = 256;

/// Blocks in a part of the work: some microseconds' worth.
const BLOCKS_PER_PART: usize = 64;

/// What a logit costs, in the multiply-adds that threads are counted by.
const EFFORT: usize = 16;
