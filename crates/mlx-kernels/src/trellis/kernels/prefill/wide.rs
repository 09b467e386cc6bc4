//! Rows that share each decoded row of the weight on ordinary lanes, for codes that run along the
//! inputs.

use mlx_op::{Launch, OutputSpec};
use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Geometry};

use super::super::super::TrellisWeight;
use super::super::operands::{LANES, div_ceil, geometry};
use super::Form;
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

/// Outputs of a threadgroup.
const OUTPUTS: i32 = 4;
/// Rows up to which a whole simdgroup works on one output; half a one above.
const WHOLE_SIMDGROUP_ROWS: i32 = 5;

static KERNEL: CachedKernel = CachedKernel::new(shaders::TRELLIS_PREFILL_WIDE);

const FORM: Form = Form {
    op: "trellis_prefill_wide",
    rows: 5..=15,
    axis: Axis::Input,
    takes: |_, _, _| true,
    expected: "a weight coded along its inputs (axis 1), its layout in rows, with 1 to 2^27 - 1 \
               inputs and outputs",
};

/// Whether [`prefill_wide`] takes `rows` rows of `dtype` with a weight of this geometry: 5 to 15 rows of a float
/// type, and any weight that is coded along its inputs.
pub fn prefill_wide_is_eligible(geometry: &Geometry, rows: i32, dtype: Dtype) -> bool {
    FORM.is_eligible(geometry, rows, dtype)
}

/// `trellis_prefill_wide`: `x * W^T` on ordinary lanes, each decoded row of the weight shared by
/// all rows of x.
///
/// * `x`: `[M, I]`, 5 to 15 rows, float32, float16 or bfloat16, any strides.
/// * `weight`: coded along its inputs.
/// * Result: `[M, O]`, lazy, of x's element type, with weights that are exact and then rounded to
///   x's type. In bfloat16 on an Apple GPU of generation 15 or later, with more than 64 outputs,
///   these are the bits of `matmul` with the expanded weight.
///
/// # Errors
///
/// When [`prefill_wide_is_eligible`] says no or x's width is not the weight's; when the context has
/// no kernels, or MLX refuses.
pub fn prefill_wide(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    let rows = FORM.check(x, weight)?;
    let outputs = weight.outputs();
    let lanes = lanes(rows);
    let simdgroups = OUTPUTS * lanes / LANES;
    let mut template = template! { "T" => x.dtype() };
    template.extend(geometry(weight));
    template.extend(template! { "M" => rows, "LANES" => lanes });
    let launch = Launch {
        grid: [LANES * div_ceil(outputs, OUTPUTS), simdgroups, 1],
        threadgroup: [LANES, simdgroups, 1],
        template,
        outputs: vec![OutputSpec::new([rows, outputs], x.dtype())],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let inputs = [x, weight.codes(), weight.scales()];
    // SAFETY: x has M rows of the weight's inputs, whose arrays have the extents of its geometry;
    // the grid covers all outputs.
    let mut results = unsafe { KERNEL.apply(&device, &inputs, &launch)? };
    Ok(results.remove(0))
}

/// Lanes that share an output.
fn lanes(rows: i32) -> i32 {
    if rows <= WHOLE_SIMDGROUP_ROWS {
        LANES
    } else {
        LANES / 2
    }
}
