//! Decoding a weight with MLX's own operations, on whatever device they run.
//!
//! The state at bit position `p = 32 w + o` of a block is `(word[w] >> o | word[w + 1] << (32 - o))
//! mod 2^L`. Shifts are written as a quotient and a wrapping product: the two parts share no bit, so
//! their sum is the union, and at `o = 0`, where the second word takes no part, its factor is 0.

use mlx_rs::{Array, Dtype, ops};
use trellis_codec::{Format, Layout, codebook};

use super::TrellisWeight;
use crate::Error;

/// The stored matrix, float32 `[R, C]`.
pub(super) fn stored(weight: &TrellisWeight) -> Result<Array, Error> {
    let geometry = weight.geometry();
    let format = geometry.format();
    let (rows, cols) = (geometry.rows() as i32, geometry.cols() as i32);
    if rows == 0 || cols == 0 {
        return Ok(ops::zeros_dtype(&[rows, cols], Dtype::Float32)?);
    }
    let codes = match geometry.layout() {
        Layout::Rows => weight.codes().clone(),
        Layout::BlockPairs => weight.codes().transpose_axes(&[1, 0, 2])?,
    };
    let words = format.words_per_block() as i32;
    let blocks = codes.reshape(&[rows * (cols / format.block() as i32), words])?;
    let values = Array::from_slice(
        &codebook::values(format.state_bits()),
        &[format.states() as i32],
    );
    let values = values
        .take(states(&blocks, format)?)?
        .reshape(&[rows, cols])?;
    let scales = weight
        .scales()
        .as_dtype(Dtype::Float32)?
        .reshape(&[rows, 1])?;
    Ok(values.multiply(scales)?)
}

/// The states of `blocks`, uint32 `[B, words]` to `[B, T]`, in the order of the columns.
fn states(blocks: &Array, format: Format) -> Result<Array, Error> {
    let (block, bits) = (format.block(), format.bits() as usize);
    let words = format.words_per_block();
    // The code runs backwards: column t is at position T - 1 - t of the stream.
    let positions = || (0..block).rev().map(|u| u * bits);
    let constant = |values: Vec<u32>| Array::from_slice(&values, &[block as i32]);
    let word = constant(positions().map(|p| (p / 32) as u32).collect());
    let next = constant(positions().map(|p| ((p / 32 + 1) % words) as u32).collect());
    let divisor = constant(positions().map(|p| 1 << (p % 32)).collect());
    let factor = constant(
        positions()
            .map(|p| 1_u32.checked_shl(32 - (p % 32) as u32).unwrap_or(0))
            .collect(),
    );
    let low = blocks.take_axis(&word, 1)?.floor_divide(divisor)?;
    let high = blocks.take_axis(&next, 1)?.multiply(factor)?;
    let states = Array::from_slice(&[format.states() as u32], &[1]);
    Ok(low.add(high)?.remainder(states)?)
}
