//! Products with codes along the outputs, on the matrix unit.
//!
//! Weights take part as integer codes, and `scale * step` multiplies the activations. All the kernels
//! here give a row the same bits, whatever the layout, the pass and the rows beside it.

use mlx_op::{Launch, OutputSpec};
use mlx_rs::{Array, Dtype, ops};
use trellis_codec::{Axis, DEFAULT_BLOCK, DEFAULT_STATE_BITS, Geometry, Layout};

use super::super::{TrellisWeight, result_shape};
use super::operands::{
    SIMDGROUPS, THREADS, bits, div_ceil, expect_down_codes, extents, fold, layout, matrix,
    unsupported_geometry,
};
use super::passes::Pass;
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

/// Parts of the input rows that are summed apart.
const SPLITS: i32 = 8;
/// The most rows that the kernels with rows in the template take.
const MOST_ROWS: i32 = 8;

static DOWN_MMA: CachedKernel = CachedKernel::new(shaders::TRELLIS_DOWN_MMA);
static DOWN_MMA_WIDE: CachedKernel = CachedKernel::new(shaders::TRELLIS_DOWN_MMA_WIDE);

/// `trellis_down_mma`: `x W^T` for 1 to 8 rows in all, `[..., I]` to `[..., O]`, with codes in rows
/// along the outputs.
///
/// # Errors
///
/// Other codes, blocks that are not of 256, more than 12 state bits; an x that does not fit or has
/// other numbers of rows; no kernels in the context.
pub fn down_mma(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    narrow("trellis_down_mma", x, weight, Layout::Rows)
}

/// `trellis_down_k3i_mma`: as [`down_mma`], with 3-bit codes in block pairs.
///
/// # Errors
///
/// As [`down_mma`].
pub fn down_k3i_mma(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    narrow("trellis_down_k3i_mma", x, weight, Layout::BlockPairs)
}

/// `trellis_down_mma_wide`: `x W^T` for a matrix x of any number of rows, `[M, I]` to `[M, O]`, with
/// codes in rows along the outputs. [`super::pass_plan`] names a good pass.
///
/// # Errors
///
/// Other codes, blocks that are not of 256, more than 12 state bits, an inner width that is no
/// multiple of 8; an x that does not fit, is no matrix or has no rows; no kernels in the context.
pub fn down_mma_wide(x: &Array, weight: &TrellisWeight, pass: Pass) -> Result<Array, Error> {
    wide("trellis_down_mma_wide", x, weight, Layout::Rows, pass)
}

/// `trellis_down_k3i_mma_wide`: as [`down_mma_wide`], with 3-bit codes in block pairs.
///
/// # Errors
///
/// As [`down_mma_wide`].
pub fn down_k3i_mma_wide(x: &Array, weight: &TrellisWeight, pass: Pass) -> Result<Array, Error> {
    wide(
        "trellis_down_k3i_mma_wide",
        x,
        weight,
        Layout::BlockPairs,
        pass,
    )
}

fn narrow(
    op: &'static str,
    x: &Array,
    weight: &TrellisWeight,
    layout: Layout,
) -> Result<Array, Error> {
    expect_down_codes(op, weight, layout)?;
    let matrix = matrix(op, x, weight, 1..=MOST_ROWS)?;
    if !is_supported(weight.geometry()) {
        let expected = "blocks of 256 and at most 12 state bits";
        return Err(unsupported_geometry(op, weight, expected));
    }
    let rows = matrix.dim(0);
    let mut template = template! {
        "T" => x.dtype(), "S" => weight.scales().dtype(), "M" => rows,
    };
    let pass = Pass::ONE_BLOCK;
    template.extend(geometry(weight));
    template.extend(template! { "ST" => pass.matrices() });
    // SAFETY: the geometry is one that the body takes; x is [M, R], for M up to 8.
    unsafe { launch(&DOWN_MMA, x, &matrix, weight, template, pass) }
}

fn wide(
    op: &'static str,
    x: &Array,
    weight: &TrellisWeight,
    layout: Layout,
    pass: Pass,
) -> Result<Array, Error> {
    expect_down_codes(op, weight, layout)?;
    if x.ndim() != 2 || x.dim(0) == 0 {
        return Err(Error::Shape {
            op,
            argument: "x",
            found: x.shape().to_vec(),
            expected: format!(
                "2 dimensions, [M, {}], and at least one row",
                weight.inputs()
            ),
        });
    }
    let matrix = matrix(op, x, weight, 1..=i32::MAX)?;
    if !is_supported(weight.geometry()) || weight.inputs() % 8 != 0 {
        let expected = "blocks of 256, at most 12 state bits and a multiple of 8 stored rows";
        return Err(unsupported_geometry(op, weight, expected));
    }
    let mut template = template! { "T" => x.dtype(), "S" => weight.scales().dtype() };
    template.extend(geometry(weight));
    template.extend(template! { "ST" => pass.matrices(), "MT" => pass.blocks() });
    // SAFETY: the geometry is one that the body takes; x is [M, R], for any M.
    unsafe { launch(&DOWN_MMA_WIDE, x, &matrix, weight, template, pass) }
}

/// # Safety
///
/// `matrix`, `weight` and `template` must be what the kernel's body calls for.
unsafe fn launch(
    kernel: &CachedKernel,
    x: &Array,
    matrix: &Array,
    weight: &TrellisWeight,
    template: Vec<(String, mlx_op::TemplateArg)>,
    pass: Pass,
) -> Result<Array, Error> {
    let (rows, (inputs, outputs)) = (matrix.dim(0), extents(weight));
    if inputs == 0 || outputs == 0 {
        return Ok(ops::zeros_dtype(&result_shape(x, outputs), x.dtype())?);
    }
    // A simdgroup has 8 positions of 256 for each of its matrices.
    let simdgroups = outputs / 256 * (32 / pass.matrices()) * SPLITS;
    let launch = Launch {
        grid: [THREADS, div_ceil(simdgroups, SIMDGROUPS), pass.count(rows)],
        threadgroup: [THREADS, 1, 1],
        template,
        outputs: vec![OutputSpec::new([rows, SPLITS, outputs], Dtype::Float32)],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let inputs = [matrix, weight.codes(), weight.scales()];
    // SAFETY: the caller's promise.
    let partials = unsafe { kernel.apply(&device, &inputs, &launch)? }.remove(0);
    fold(&partials, x, outputs)
}

/// The template arguments that say what the codes are, and who works on them.
fn geometry(weight: &TrellisWeight) -> Vec<(String, mlx_op::TemplateArg)> {
    let (rows, cols) = extents(weight);
    template! {
        "R" => rows, "C" => cols, "K" => bits(weight),
        "L" => weight.geometry().format().state_bits() as i32,
        "SPLITS" => SPLITS, "SG_TG" => SIMDGROUPS, "LAYOUT" => layout(weight),
    }
}

/// Whether [`down_mma`] or [`down_k3i_mma`], as the layout is, takes such codes.
pub fn down_mma_is_eligible(geometry: &Geometry) -> bool {
    geometry.axis() == Axis::Output
        && (geometry.layout() == Layout::Rows || geometry.format().bits() == 3)
        && is_supported(geometry)
}

fn is_supported(geometry: &Geometry) -> bool {
    let format = geometry.format();
    format.block() == DEFAULT_BLOCK && format.state_bits() <= DEFAULT_STATE_BITS
}
