//! The host decoder, referee of every other way to turn codes into weights.

use rayon::prelude::*;

use crate::error::expect_length;
use crate::packing::state_at;
use crate::{Geometry, Result, codebook};

/// How a weight is computed from the integer code `y` of its state and the scale of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contract {
    /// Contract E: the exact value `y / d`, times the scale, each rounded to f32.
    Exact,
    /// Contract E as the matvec kernels use it: as [`Contract::Exact`], then rounded to bf16.
    ExactBf16,
    /// Contract U: `y * rho`, times the scale, each rounded to f32.
    Unrefined,
    /// Contract F: the integer `y` itself; the product is multiplied by [`factored_scales`] once per row.
    Factored,
}

impl Contract {
    /// The weights of all `2^state_bits` states at scale 1, before the product with the scale.
    fn table(self, state_bits: u32) -> Vec<f32> {
        let value = match self {
            Self::Exact | Self::ExactBf16 => codebook::exact,
            Self::Unrefined => codebook::unrefined,
            Self::Factored => |y| y as f32,
        };
        codebook::integer_codes(state_bits)
            .into_iter()
            .map(|y| value(i32::from(y)))
            .collect()
    }

    fn scaled(self, value: f32, scale: f32) -> f32 {
        match self {
            Self::Exact | Self::Unrefined => value * scale,
            Self::ExactBf16 => round_to_bf16(value * scale),
            Self::Factored => value,
        }
    }
}

/// Rounds to the nearest bf16, ties to even, kept as f32.
#[must_use]
pub fn round_to_bf16(value: f32) -> f32 {
    half::bf16::from_f32(value).to_f32()
}

/// The factor `scale * rho` of every stored row that completes a product under [`Contract::Factored`].
#[must_use]
pub fn factored_scales(scales: &[f32]) -> Vec<f32> {
    scales
        .iter()
        .map(|scale| scale * codebook::RECIPROCAL)
        .collect()
}

/// The state of every weight, `[rows, cols]` row-major whatever the layout of the codes.
///
/// # Errors
/// [`crate::Error::Length`] when `codes` does not fit the geometry.
pub fn decode_states(geometry: &Geometry, codes: &[u32]) -> Result<Vec<u16>> {
    expect_length("the array of code words", codes.len(), geometry.words())?;
    let mut states = vec![0; geometry.weights()];
    for_each_block(geometry, codes, &mut states, |_, words, states| {
        for (t, state) in states.iter_mut().enumerate() {
            *state = state_at(geometry.format(), words, t);
        }
    });
    Ok(states)
}

/// Decodes the stored matrix, `[rows, cols]` row-major whatever the layout of the codes. `scales` holds one number per
/// stored row.
///
/// # Errors
/// [`crate::Error::Length`] when `codes` or `scales` does not fit the geometry.
pub fn decode(
    geometry: &Geometry,
    codes: &[u32],
    scales: &[f32],
    contract: Contract,
) -> Result<Vec<f32>> {
    expect_length("the array of code words", codes.len(), geometry.words())?;
    expect_length("the array of scales", scales.len(), geometry.rows())?;
    let table = contract.table(geometry.format().state_bits());
    let mut weights = vec![0.0; geometry.weights()];
    for_each_block(geometry, codes, &mut weights, |row, words, weights| {
        for (t, weight) in weights.iter_mut().enumerate() {
            let value = table[usize::from(state_at(geometry.format(), words, t))];
            *weight = contract.scaled(value, scales[row]);
        }
    });
    Ok(weights)
}

/// Calls `visit(row, words, outputs)` for every block, rows in parallel.
fn for_each_block<T: Send>(
    geometry: &Geometry,
    codes: &[u32],
    outputs: &mut [T],
    visit: impl Fn(usize, &[u32], &mut [T]) + Sync,
) {
    let (block, wpb) = (
        geometry.format().block(),
        geometry.format().words_per_block(),
    );
    outputs
        .par_chunks_mut(geometry.cols().max(1))
        .enumerate()
        .for_each(|(row, outputs)| {
            for (index, outputs) in outputs.chunks_exact_mut(block).enumerate() {
                let start = geometry.block_offset(row, index);
                visit(row, &codes[start..start + wpb], outputs);
            }
        });
}
