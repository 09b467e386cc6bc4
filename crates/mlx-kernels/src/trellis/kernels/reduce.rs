//! Products of few rows with a weight that is coded along its inputs.

use mlx_op::{Launch, OutputSpec};
use mlx_rs::{Array, ops};
use trellis_codec::Axis;

use super::super::{Selection, TrellisWeight, result_shape};
use super::operands::{
    SIMDGROUPS, THREADS, codes, div_ceil, expect_axis, expect_runs, expect_table, extents,
    geometry, matrix_or_nothing, restored, value_table,
};
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

/// Most rows of x.
const MOST_ROWS: i32 = 4;

static REDUCE: CachedKernel = CachedKernel::new(shaders::TRELLIS_REDUCE);

/// `trellis_reduce`: `x W^T` for 1 to 4 rows of `x`, each of which decodes the weight for itself.
///
/// * `x`: `[..., I]`, float32, float16 or bfloat16.
/// * `weight`: coded along its inputs.
/// * Result: `[..., O]`, of x's element type. Sums are float32.
///
/// # Errors
///
/// When an argument does not fit, the context has no kernels, or MLX refuses.
pub fn reduce(x: &Array, weight: &TrellisWeight, selection: Selection) -> Result<Array, Error> {
    launch("trellis_reduce", x, weight, selection, |_| 1)
}

/// `trellis_reduce_shared`: the same, with the same bits, decoding each weight once for all rows.
///
/// # Errors
///
/// Those of [`reduce`].
pub fn reduce_shared(
    x: &Array,
    weight: &TrellisWeight,
    selection: Selection,
) -> Result<Array, Error> {
    launch("trellis_reduce_shared", x, weight, selection, |rows| rows)
}

/// `shared` says, from the rows of x, for how many of them a weight is decoded once.
fn launch(
    op: &'static str,
    x: &Array,
    weight: &TrellisWeight,
    selection: Selection,
    shared: impl Fn(i32) -> i32,
) -> Result<Array, Error> {
    expect_axis(op, weight, Axis::Input)?;
    expect_runs(op, weight)?;
    expect_table(op, weight, selection)?;
    let matrix = matrix_or_nothing(op, x, weight, 1..=MOST_ROWS)?;
    let (rows, (outputs, inputs)) = (matrix.dim(0), extents(weight));
    if rows == 0 || outputs == 0 || inputs == 0 {
        return Ok(ops::zeros_dtype(&result_shape(x, outputs), x.dtype())?);
    }
    let shared = shared(rows);
    let mut template = template! { "T" => x.dtype() };
    template.extend(geometry(weight));
    template.extend(template! {
        "SGS" => SIMDGROUPS, "DECODE" => selection.decode(), "ROWS" => shared,
    });
    let launch = Launch {
        grid: [THREADS, div_ceil(outputs, SIMDGROUPS), rows / shared],
        threadgroup: [THREADS, 1, 1],
        template,
        outputs: vec![OutputSpec::new([rows, outputs], x.dtype())],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let inputs = [
        &matrix,
        &codes(weight)?,
        weight.scales(),
        &value_table(weight),
    ];
    // SAFETY: a weight's codes and scales have the extents of its geometry, the table all states, and
    // x as many columns as the weight; blocks are whole runs, and the rows are a multiple of ROWS.
    let mut results = unsafe { REDUCE.apply(&device, &inputs, &launch)? };
    restored(&results.remove(0), x, outputs)
}
