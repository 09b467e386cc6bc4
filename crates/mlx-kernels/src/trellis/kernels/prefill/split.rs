//! Tiles on the matrix unit in parts of the inner dimension, for codes that run along the outputs.

use mlx_op::{KernelDevice, Launch, OutputSpec};
use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Geometry};

use super::super::super::TrellisWeight;
use super::super::operands::{THREADS, div_ceil, geometry, layout};
use super::{Form, SplitPartition};
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

/// Outputs of a tile.
const OUTPUTS: i32 = 32;
/// Threads of a threadgroup that adds the parts up.
const FOLD_THREADS: i32 = 256;

static KERNEL: CachedKernel = CachedKernel::new(shaders::TRELLIS_PREFILL_SPLITK);
static FOLD: CachedKernel = CachedKernel::new(shaders::TRELLIS_SPLITK_FOLD);

const FORM: Form = Form {
    op: "trellis_prefill_splitk",
    rows: 5..=8,
    axis: Axis::Output,
    takes: is_split_by_mlx,
    expected: "a weight coded along its outputs (axis 0), with at least 128 inputs, and no more \
               outputs than inputs, nor than 16384",
};

/// Whether MLX splits the inner dimension of such a product, on every Apple GPU. What it does not
/// split has results too large, or sums too short, to gain from parts.
fn is_split_by_mlx(rows: i32, inputs: i32, outputs: i32) -> bool {
    let tiles = i64::from(div_ceil(rows, 16)) * i64::from(div_ceil(outputs, 16));
    inputs / 16 >= 8 && inputs >= rows.max(outputs) && tiles <= 1024
}

/// Whether [`prefill_splitk`] takes `rows` rows of `dtype` with a weight of this geometry: 5 to 8 rows of a float
/// type, and a weight that is coded along its outputs, in either layout, with at least 128 inputs
/// and no more outputs than inputs, nor than 16384.
pub fn prefill_splitk_is_eligible(geometry: &Geometry, rows: i32, dtype: Dtype) -> bool {
    FORM.is_eligible(geometry, rows, dtype)
}

/// `trellis_prefill_splitk` and `trellis_splitk_fold`: `x * W^T` on the matrix unit in the parts of
/// [`SplitPartition`], whose float32 sums are added up in order.
///
/// * `x`: `[M, I]`, 5 to 8 rows, float32, float16 or bfloat16, any strides.
/// * `weight`: coded along its outputs.
/// * Result: `[M, O]`, lazy, of x's element type, with weights that are exact and then rounded to
///   x's type. In bfloat16 on an Apple GPU these are the bits of `matmul` with the expanded weight.
///
/// # Errors
///
/// When [`prefill_splitk_is_eligible`] says no or x's width is not the weight's; when the context
/// has no kernels, or MLX refuses.
pub fn prefill_splitk(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    let rows = FORM.check(x, weight)?;
    let outputs = weight.outputs();
    let partition = SplitPartition::new(rows, weight.inputs(), outputs);
    let splits = partition.splits();
    let mut template = template! { "T" => x.dtype() };
    template.extend(geometry(weight));
    template.extend(template! {
        "LAYOUT" => layout(weight), "SPLITS" => splits, "PARTITION" => partition.length(),
    });
    let launch = Launch {
        grid: [div_ceil(outputs, OUTPUTS) * THREADS, 1, splits],
        threadgroup: [THREADS, 1, 1],
        template,
        outputs: vec![OutputSpec::new([splits, rows, outputs], Dtype::Float32)],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let inputs = [x, weight.codes(), weight.scales()];
    // SAFETY: x is a matrix of at most 8 rows of the weight's inputs, whose arrays have the extents
    // of its geometry; the grid covers all tiles in all parts.
    let partials = unsafe { KERNEL.apply(&device, &inputs, &launch)? };
    fold(&device, &partials[0], splits, x.dtype())
}

/// Adds up `[splits, M, O]` along the first axis.
fn fold(
    device: &KernelDevice,
    partials: &Array,
    splits: i32,
    dtype: Dtype,
) -> Result<Array, Error> {
    let (rows, outputs) = (partials.dim(1), partials.dim(2));
    let launch = Launch {
        grid: [rows * outputs, 1, 1],
        threadgroup: [FOLD_THREADS, 1, 1],
        template: template! { "T" => dtype, "SPLITS" => splits },
        outputs: vec![OutputSpec::new([rows, outputs], dtype)],
        init_value: None,
    };
    // SAFETY: the partial sums have three axes, the first of which is the parts; a thread an
    // element.
    let mut results = unsafe { FOLD.apply(device, &[partials], &launch)? };
    Ok(results.remove(0))
}
