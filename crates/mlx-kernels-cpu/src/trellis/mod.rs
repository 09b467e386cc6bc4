//! `y = x * W^T` for a weight in trellis codes, decoded in registers as it is multiplied.
//!
//! The format, its geometry and its host decoder are those of [`trellis_codec`]. Both axes, both layouts of the words,
//! every width from 1 to 8 bits and every block of whole groups of 16 weights are served.
//!
//! # Numbers
//!
//! A weight takes part in the sum as its integer code `y`, exact in `f32`; the row's `scale * rho` multiplies each
//! result once where the code runs along the inputs (axis 1), and each activation once where it runs along the outputs
//! (axis 0). Sums are in `f32` with fused multiply-add, in an order that depends on the weight's shape alone: a row of
//! activations has the same result whatever stands beside it, and whatever the number of threads. All instruction sets
//! with fused multiply-add give the same bits, the portable one too.
//!
//! # Speed
//!
//! Sixteen weights take one byte permutation, a shift, a mask, a 32-bit product (two instructions on x86), a sum and a
//! dot product of bytes, a conversion and one multiply-add for each row of activations: about 4.5 cycles with AVX-512.
//! That is less than a core needs to read sixteen dense bf16 weights from memory.

mod codes;
mod lanes;
mod reduce;
mod scatter;

use trellis_codec::{Axis, Geometry};

use crate::{Error, Execution, Floats, FloatsMut};
use codes::Codes;

/// Weights decoded at a time.
const GROUP: usize = 16;

/// Activation rows that share one decoding of a weight.
const SHARED_ROWS: usize = 64;

/// `y = x * W^T` on this machine's best instructions and all its cores.
///
/// * `rows`: rows of `x` and `y`.
/// * `x`: `[rows, geometry.input_features()]` activations.
/// * `codes`: the words, of shape `geometry.codes_shape()`.
/// * `scales`: `[geometry.rows()]`, one for each stored row, of any of the three types.
/// * `y`: `[rows, geometry.output_features()]`, of any of the three types; every element is written.
///
/// # Errors
///
/// [`Error::Length`] for arrays that do not fit, [`Error::TrellisBlock`] for blocks that are no multiple of 16; `y` is
/// then untouched.
pub fn matmul(
    geometry: &Geometry,
    rows: usize,
    x: Floats<'_>,
    codes: &[u32],
    scales: Floats<'_>,
    y: FloatsMut<'_>,
) -> Result<(), Error> {
    matmul_with(Execution::default(), geometry, rows, x, codes, scales, y)
}

/// As [`matmul`], with the instructions and the number of threads given.
///
/// # Errors
///
/// As [`matmul`], and [`Error::Level`] for instructions that this machine does not have.
pub fn matmul_with(
    execution: Execution,
    geometry: &Geometry,
    rows: usize,
    x: Floats<'_>,
    codes: &[u32],
    scales: Floats<'_>,
    mut y: FloatsMut<'_>,
) -> Result<(), Error> {
    execution.check()?;
    check(geometry, rows, x, codes, scales, &y)?;
    if y.is_empty() {
        return Ok(());
    }
    let codes = Codes::new(geometry, codes);
    let mut factors = vec![0.0; geometry.rows()];
    scales.widen_into(0, &mut factors);
    for factor in &mut factors {
        *factor *= trellis_codec::codebook::RECIPROCAL;
    }
    match geometry.axis() {
        Axis::Input => reduce::multiply(execution, &codes, rows, x, &factors, y.shared()),
        Axis::Output => scatter::multiply(execution, &codes, rows, x, &factors, y.shared()),
    }
    Ok(())
}

fn check(
    geometry: &Geometry,
    rows: usize,
    x: Floats<'_>,
    codes: &[u32],
    scales: Floats<'_>,
    y: &FloatsMut<'_>,
) -> Result<(), Error> {
    let block = geometry.format().block();
    if !block.is_multiple_of(GROUP) {
        return Err(Error::TrellisBlock { block });
    }
    let (inputs, outputs) = (geometry.input_features(), geometry.output_features());
    let length = |argument, got, expected: Option<usize>, columns| match expected {
        Some(expected) if got == expected => Ok(()),
        Some(expected) => Err(Error::Length {
            argument,
            got,
            expected,
        }),
        None => Err(Error::TooLarge {
            argument,
            rows,
            columns,
        }),
    };
    length("x", x.len(), rows.checked_mul(inputs), inputs)?;
    length("codes", codes.len(), Some(geometry.words()), 0)?;
    length("scales", scales.len(), Some(geometry.rows()), 0)?;
    length("y", y.len(), rows.checked_mul(outputs), outputs)
}
