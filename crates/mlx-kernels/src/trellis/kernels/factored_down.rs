//! Products of few rows with a weight that is coded along its outputs, as integer codes:
//! `scale * step` multiplies the activations.
//!
//! A row has the same bits in all the kernels here, beside any rows and in either layout of the codes.

use std::ops::RangeInclusive;

use mlx_rs::Array;
use trellis_codec::{Geometry, Layout};

use super::super::TrellisWeight;
use super::decode;
use super::operands::{SIMDGROUPS, expect_down_codes, matrix_or_nothing, unsupported_geometry};
use super::scatter::{Form, MOST_ROWS, Share, launch, scatter_is_eligible};
use crate::Error;

/// `trellis_down_factored_row`: `x W^T` for one row of x, `[..., I]` to `[..., O]`, with codes in rows
/// along the outputs. The result has x's element type; sums are float32. Without rows it is empty.
///
/// # Errors
///
/// Other codes, blocks of more than 32 words that are not of 256 weights; an x that does not fit or
/// has another number of rows; no kernels in the context.
pub fn down_factored_row(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    in_rows("trellis_down_factored_row", x, weight, 1..=1)
}

/// `trellis_down_factored_rows`: as [`down_factored_row`], for 2 to 4 rows, decoding each weight once.
///
/// # Errors
///
/// As [`down_factored_row`].
pub fn down_factored_rows(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    in_rows("trellis_down_factored_rows", x, weight, 2..=MOST_ROWS)
}

/// `trellis_down_k3i_factored_row`: as [`down_factored_row`], with 3-bit codes of 12 state bits in
/// pairs of blocks of 256.
///
/// # Errors
///
/// As [`down_factored_row`].
pub fn down_k3i_factored_row(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    in_pairs("trellis_down_k3i_factored_row", x, weight, 1..=1)
}

/// `trellis_down_k3i_factored_rows`: as [`down_k3i_factored_row`], for 2 to 4 rows, decoding each
/// weight once.
///
/// # Errors
///
/// As [`down_factored_row`].
pub fn down_k3i_factored_rows(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    in_pairs("trellis_down_k3i_factored_rows", x, weight, 2..=MOST_ROWS)
}

/// Whether there are such kernels for these codes: in rows those of [`scatter`](super::scatter()), in pairs
/// 3-bit codes of 12 state bits in blocks of 256.
pub fn down_factored_is_eligible(geometry: &Geometry) -> bool {
    let format = geometry.format();
    match geometry.layout() {
        Layout::Rows => scatter_is_eligible(geometry),
        Layout::BlockPairs => (format.bits(), format.block(), format.state_bits()) == (3, 256, 12),
    }
}

fn in_rows(
    op: &'static str,
    x: &Array,
    weight: &TrellisWeight,
    rows: RangeInclusive<i32>,
) -> Result<Array, Error> {
    expect_down_codes(op, weight, Layout::Rows)?;
    let share = Share::general(op, weight)?;
    factored(op, x, weight, rows, share)
}

fn in_pairs(
    op: &'static str,
    x: &Array,
    weight: &TrellisWeight,
    rows: RangeInclusive<i32>,
) -> Result<Array, Error> {
    expect_down_codes(op, weight, Layout::BlockPairs)?;
    if !down_factored_is_eligible(weight.geometry()) {
        let expected = "blocks of 256 and 12 state bits";
        return Err(unsupported_geometry(op, weight, expected));
    }
    factored(op, x, weight, rows, Share::Eight)
}

fn factored(
    op: &'static str,
    x: &Array,
    weight: &TrellisWeight,
    rows: RangeInclusive<i32>,
    share: Share,
) -> Result<Array, Error> {
    let matrix = matrix_or_nothing(op, x, weight, rows)?;
    let form = Form {
        decode: decode::FACTORED,
        share,
        simdgroups: SIMDGROUPS,
        shares_rows: true,
    };
    // SAFETY: the code runs along the outputs; x has up to 4 rows, and the share fits the blocks.
    unsafe { launch(x, &matrix, weight, &form) }
}
