//! Products of few rows with a 3-bit weight that is coded along its outputs, every lane at work.

use mlx_rs::Array;
use trellis_codec::{Axis, DEFAULT_BLOCK, DEFAULT_STATE_BITS, Geometry};

use super::super::{Selection, TrellisWeight};
use super::decode;
use super::operands::{SIMDGROUPS, expect_axis, matrix_or_nothing, unsupported_geometry};
use super::scatter::{Form, MOST_ROWS, ScatterOptions, Share, launch};
use crate::Error;

/// `trellis_scatter_balanced3`: [`scatter`](super::scatter) at the selections from 6 on, with the
/// same bits, for 3-bit codes.
///
/// * `x`: `[..., I]`, 1 to 4 rows, float32, float16 or bfloat16.
/// * `weight`: of 3 bits, blocks of 256 and at most 12 state bits, coded along its outputs, in rows or
///   block pairs.
/// * Result: `[..., O]`, of x's element type. Sums are float32.
///
/// # Errors
///
/// When an argument does not fit, the context has no kernels, or MLX refuses.
pub fn scatter_balanced3(
    x: &Array,
    weight: &TrellisWeight,
    options: ScatterOptions,
) -> Result<Array, Error> {
    let form = Form {
        decode: options.decode(),
        share: Share::Eight,
        simdgroups: options.simdgroups(weight),
        shares_rows: false,
    };
    balanced("trellis_scatter_balanced3", x, weight, &form)
}

/// `trellis_scatter_balanced3_shared`: the same, with the same bits, decoding each weight once for all
/// rows. With `code_table` each threadgroup makes a table of the integer codes, 16 bits each, and
/// takes them from there.
///
/// # Errors
///
/// Those of [`scatter_balanced3`].
pub fn scatter_balanced3_shared(
    x: &Array,
    weight: &TrellisWeight,
    code_table: bool,
) -> Result<Array, Error> {
    let form = Form {
        decode: if code_table {
            decode::TABLE_CODES
        } else {
            Selection::UNREFINED.decode()
        },
        share: Share::Eight,
        simdgroups: SIMDGROUPS,
        shares_rows: true,
    };
    balanced("trellis_scatter_balanced3_shared", x, weight, &form)
}

/// Whether the balanced kernels take such codes: of 3 bits, blocks of 256 and at most 12 state bits, along
/// the outputs.
pub fn balanced_is_eligible(geometry: &Geometry) -> bool {
    let format = geometry.format();
    geometry.axis() == Axis::Output
        && format.bits() == 3
        && format.block() == DEFAULT_BLOCK
        && format.state_bits() <= DEFAULT_STATE_BITS
}

fn balanced(
    op: &'static str,
    x: &Array,
    weight: &TrellisWeight,
    form: &Form,
) -> Result<Array, Error> {
    expect_axis(op, weight, Axis::Output)?;
    if !balanced_is_eligible(weight.geometry()) {
        let expected = "3 bits a weight, blocks of 256 and at most 12 state bits";
        return Err(unsupported_geometry(op, weight, expected));
    }
    let matrix = matrix_or_nothing(op, x, weight, 1..=MOST_ROWS)?;
    // SAFETY: the code runs along the outputs, in blocks of 256, with at most 12 state bits; x has up
    // to 4 rows.
    unsafe { launch(x, &matrix, weight, form) }
}
