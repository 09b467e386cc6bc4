//! `silu(gate) * up` of few rows from sums of integer codes, each of which is scaled once.

use std::ops::RangeInclusive;

use mlx_op::{Launch, OutputSpec};
use mlx_rs::{Array, ops};

use super::super::{TrellisWeight, result_shape};
use super::gateup::Tail;
use super::operands::{SIMDGROUPS, THREADS, div_ceil, matrix_or_nothing, restored};
use super::pair::{Pair, Widths};
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

static FACTORED_GATEUP: CachedKernel = CachedKernel::new(shaders::TRELLIS_FACTORED_GATEUP);

/// What tells the three kernels from each other.
struct Form {
    op: &'static str,
    widths: Widths,
    rows: RangeInclusive<i32>,
    /// Sums for each row and projection.
    chains: i32,
    tail: Tail,
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
    let form = Form {
        op: "trellis_gateup_factored_row",
        widths: Widths::Equal,
        rows: 1..=1,
        chains: 2,
        tail: Tail::Float,
    };
    launch(x, gate, up, &form)
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
    let form = Form {
        op: "trellis_gateup_factored_rows",
        widths: Widths::Equal,
        rows: 2..=4,
        chains: 1,
        tail: Tail::Float,
    };
    launch(x, gate, up, &form)
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
    let form = Form {
        op: "trellis_gateup_mixed_factored",
        widths: Widths::Different,
        rows: 1..=4,
        chains: 1,
        tail: Tail::Stock,
    };
    launch(x, gate, up, &form)
}

fn launch(
    x: &Array,
    gate: &TrellisWeight,
    up: &TrellisWeight,
    form: &Form,
) -> Result<Array, Error> {
    let pair = Pair::new(form.op, gate, up, form.widths)?;
    let matrix = matrix_or_nothing(form.op, x, gate, form.rows.clone())?;
    let (rows, outputs) = (matrix.dim(0), gate.outputs());
    if matrix.size() == 0 || outputs == 0 {
        return Ok(ops::zeros_dtype(&result_shape(x, outputs), x.dtype())?);
    }
    let mut template = template! { "T" => x.dtype() };
    template.extend(pair.template());
    template.extend(template! {
        "SGS" => SIMDGROUPS, "ROWS" => rows, "CHAINS" => form.chains, "TAIL" => form.tail.number(),
    });
    let launch = Launch {
        grid: [THREADS, div_ceil(outputs, SIMDGROUPS), 1],
        threadgroup: [THREADS, 1, 1],
        template,
        outputs: vec![OutputSpec::new([rows, outputs], x.dtype())],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let [gate_codes, gate_scales, up_codes, up_scales] = &pair.inputs()?;
    let inputs = [&matrix, gate_codes, gate_scales, up_codes, up_scales];
    // SAFETY: codes and scales have the extents of their geometry, which is one for both, and x has as
    // many columns as the weights; blocks are whole runs.
    let mut results = unsafe { FACTORED_GATEUP.apply(&device, &inputs, &launch)? };
    restored(&results.remove(0), x, outputs)
}
