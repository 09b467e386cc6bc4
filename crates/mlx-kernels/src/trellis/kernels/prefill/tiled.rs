//! Tiles on the matrix unit, for codes that run along the inputs.

use mlx_op::{Launch, OutputSpec};
use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Geometry};

use super::super::super::TrellisWeight;
use super::super::operands::{THREADS, div_ceil, geometry};
use super::Form;
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

/// Outputs of a tile.
const OUTPUTS: i32 = 64;

static KERNEL: CachedKernel = CachedKernel::new(shaders::TRELLIS_PREFILL_TILED);

const FORM: Form = Form {
    op: "trellis_prefill_tiled",
    rows: 5..=32,
    axis: Axis::Input,
    takes: |_, _, _| true,
    expected: "a weight coded along its inputs (axis 1), with 1 to 2^27 - 1 \
               inputs and outputs",
};

/// Whether [`prefill_tiled`] takes `rows` rows of `dtype` with a weight of this geometry: 5 to 32 rows of a float
/// type, and any weight that is coded along its inputs.
pub fn prefill_tiled_is_eligible(geometry: &Geometry, rows: i32, dtype: Dtype) -> bool {
    FORM.is_eligible(geometry, rows, dtype)
}

/// `trellis_prefill_tiled`: `x * W^T` on the matrix unit, the weight decoded tile by tile.
///
/// * `x`: `[M, I]`, 5 to 32 rows, float32, float16 or bfloat16, any strides.
/// * `weight`: coded along its inputs.
/// * Result: `[M, O]`, lazy, of x's element type: float32 sums, inputs ascending, of products with
///   weights that are exact and then rounded to x's type. In bfloat16 on an Apple GPU these are the
///   bits of `matmul` with the expanded weight, where MLX takes its ordinary tiled kernel.
///
/// # Errors
///
/// When [`prefill_tiled_is_eligible`] says no or x's width is not the weight's; when the context
/// has no kernels, or MLX refuses.
pub fn prefill_tiled(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    let rows = FORM.check(x, weight)?;
    let outputs = weight.outputs();
    let tile_rows = tile_rows(rows);
    let mut template = template! { "T" => x.dtype() };
    template.extend(geometry(weight));
    template.extend(template! { "BM" => tile_rows });
    let launch = Launch {
        grid: [
            div_ceil(outputs, OUTPUTS) * THREADS,
            div_ceil(rows, tile_rows),
            1,
        ],
        threadgroup: [THREADS, 1, 1],
        template,
        outputs: vec![OutputSpec::new([rows, outputs], x.dtype())],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let inputs = [x, weight.codes(), weight.scales()];
    // SAFETY: x is a matrix of the weight's inputs, whose arrays have the extents of its geometry;
    // the grid covers all tiles.
    let mut results = unsafe { KERNEL.apply(&device, &inputs, &launch)? };
    Ok(results.remove(0))
}

/// Rows of a tile: the least of 8, 16 and 32 that holds them all.
fn tile_rows(rows: i32) -> i32 {
    if rows <= 8 {
        8
    } else if rows <= 16 {
        16
    } else {
        32
    }
}
