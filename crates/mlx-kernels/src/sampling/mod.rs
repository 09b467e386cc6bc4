//! Choosing tokens: the greedy choice by log-probability, and vocabulary masks.

mod argmax;
mod bitmask;

pub use argmax::normalized_argmax;
pub use bitmask::apply_token_bitmask;

use mlx_rs::Array;

/// The product of all dimensions but the last.
fn rows_of(logits: &Array) -> i32 {
    logits.shape().iter().rev().skip(1).product()
}
