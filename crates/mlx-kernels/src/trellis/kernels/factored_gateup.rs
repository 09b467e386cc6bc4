//! `silu(gate) * up` of few rows from sums of integer codes, each of which is scaled once.

use mlx_rs::Array;

use super::super::{Selection, TrellisWeight};
use super::decode;
use super::gateup::{Form, Tail, launch};
use super::pair::{Pair, Widths};
use crate::Error;

/// What the three kernels have in common.
fn factored() -> Form {
    Form {
        decode: decode::FACTORED,
        shared: true,
        ..Form::base(Selection::UNREFINED)
    }
}

/// `trellis_gateup_factored_row`: `silu(x Wg^T) * (x Wu^T)` with [`Tail::Float`] for one row of `x`.
///
/// * `x`: `[..., I]`, float32, float16 or bfloat16.
/// * `gate`, `up`: coded along their inputs, of one geometry and width.
/// * Result: `[..., O]`, of x's element type. Sums are float32.
///
/// # Errors
///
/// When an argument does not fit, the context has no kernels, or MLX refuses.
pub fn gateup_factored_row(
    x: &Array,
    gate: &TrellisWeight,
    up: &TrellisWeight,
) -> Result<Array, Error> {
    let op = "trellis_gateup_factored_row";
    let pair = Pair::new(op, gate, up, Widths::Equal)?;
    let form = Form {
        rows: 1..=1,
        chains: 2,
        tail: Tail::Float,
        ..factored()
    };
    launch(op, x, &pair, &form)
}

/// `trellis_gateup_factored_rows`: the same for 2 to 4 rows, with another order of summation. A row's
/// bits do not depend on the number of rows.
///
/// # Errors
///
/// Those of [`gateup_factored_row`].
pub fn gateup_factored_rows(
    x: &Array,
    gate: &TrellisWeight,
    up: &TrellisWeight,
) -> Result<Array, Error> {
    let op = "trellis_gateup_factored_rows";
    let pair = Pair::new(op, gate, up, Widths::Equal)?;
    let form = Form {
        rows: 2..=4,
        chains: 1,
        tail: Tail::Float,
        ..factored()
    };
    launch(op, x, &pair, &form)
}

/// `trellis_gateup_mixed_factored`: `silu(x Wg^T) * (x Wu^T)` with [`Tail::Stock`] for 1 to 4 rows of
/// `x` and weights of different widths.
///
/// # Errors
///
/// Those of [`gateup_factored_row`].
pub fn gateup_mixed_factored(
    x: &Array,
    gate: &TrellisWeight,
    up: &TrellisWeight,
) -> Result<Array, Error> {
    let op = "trellis_gateup_mixed_factored";
    let pair = Pair::new(op, gate, up, Widths::Different)?;
    let form = Form {
        rows: 1..=4,
        chains: 1,
        tail: Tail::Stock,
        ..factored()
    };
    launch(op, x, &pair, &form)
}
