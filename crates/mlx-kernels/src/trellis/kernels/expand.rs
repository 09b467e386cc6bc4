//! The stored matrix.

use mlx_op::{Launch, OutputSpec};
use mlx_rs::{Array, Dtype, ops};
use trellis_codec::{DEFAULT_BLOCK, DEFAULT_STATE_BITS, Layout};

use super::super::{Selection, TrellisWeight};
use super::operands::{
    codes, div_ceil, extents, geometry, layout, unsupported_geometry, value_table,
};
use crate::host::is_supported;
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

/// Threads of a threadgroup, along a row.
const THREADS: i32 = 256;

/// Columns of a thread, and threads of a threadgroup, in the form for four columns a thread.
const COLUMNS4: i32 = 4;
const THREADS4: i32 = 128;
/// Rows whose codes lie side by side that are decoded one after the other.
const TILE4: i32 = 128;

static EXPAND: CachedKernel = CachedKernel::new(shaders::TRELLIS_EXPAND);
static EXPAND4: CachedKernel = CachedKernel::new(shaders::TRELLIS_EXPAND4);

/// `trellis_expand`: the stored matrix, `[R, C]`, each weight the exact value of its state times its
/// row's scale in float32, then rounded to `dtype`. All selections give the same bits.
///
/// # Errors
///
/// When `dtype` is not a float, the context has no kernels, or MLX refuses.
pub fn expand(weight: &TrellisWeight, dtype: Dtype, selection: Selection) -> Result<Array, Error> {
    if !is_supported(dtype) {
        return Err(Error::Dtype {
            op: "trellis_expand",
            argument: "the result",
            found: dtype,
            expected: "float32, float16 or bfloat16".into(),
        });
    }
    let (rows, cols) = extents(weight);
    if rows == 0 || cols == 0 {
        return Ok(ops::zeros_dtype(&[rows, cols], dtype)?);
    }
    let mut template = template! { "T" => dtype };
    template.extend(geometry(weight));
    template.extend(template! { "DECODE" => selection.expansion(), "LAYOUT" => layout(weight) });
    let launch = Launch {
        grid: [THREADS * rows, div_ceil(cols, THREADS), 1],
        threadgroup: [THREADS, 1, 1],
        template,
        outputs: vec![OutputSpec::new([rows, cols], dtype)],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let inputs = [&codes(weight)?, weight.scales(), &value_table(weight)];
    // SAFETY: a weight's codes and scales have the extents of its geometry, and the table all states.
    let mut results = unsafe { EXPAND.apply(&device, &inputs, &launch)? };
    Ok(results.remove(0))
}

/// `trellis_expand4`: the stored matrix in bfloat16, `[R, C]`, with the bits of [`expand`]; faster,
/// for the weights that [`expand4_is_eligible`] names.
///
/// # Errors
///
/// When the weight is not eligible, the context has no kernels, or MLX refuses.
pub fn expand4(weight: &TrellisWeight) -> Result<Array, Error> {
    let dtype = Dtype::Bfloat16;
    if !expand4_is_eligible(weight, dtype) {
        return Err(unsupported_geometry(
            "trellis_expand4",
            weight,
            "2, 3 or 4 bits a weight, 12 state bits, blocks of 256, and weights, but fewer than 2^33",
        ));
    }
    let (rows, cols) = extents(weight);
    let in_tiles = weight.geometry().layout() == Layout::BlockPairs && rows % TILE4 == 0;
    let mut template = geometry(weight);
    template.extend(template! {
        "LAYOUT" => layout(weight), "TILE" => if in_tiles { TILE4 } else { 1 },
    });
    let launch = Launch {
        grid: [cols / COLUMNS4 * rows, 1, 1],
        threadgroup: [THREADS4, 1, 1],
        template,
        outputs: vec![OutputSpec::new([rows, cols], dtype)],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let inputs = [weight.codes(), weight.scales()];
    // SAFETY: a weight's codes and scales have the extents of its geometry, and eligible weights are
    // those that the body takes.
    let mut results = unsafe { EXPAND4.apply(&device, &inputs, &launch)? };
    Ok(results.remove(0))
}

/// Whether [`expand4`] can give this weight in `dtype`: bfloat16; 2, 3 or 4 bits, 12 state bits and
/// blocks of 256; at least one weight and fewer than 2^33.
pub fn expand4_is_eligible(weight: &TrellisWeight, dtype: Dtype) -> bool {
    let format = weight.geometry().format();
    dtype == Dtype::Bfloat16
        && matches!(format.bits(), 2..=4)
        && format.state_bits() == DEFAULT_STATE_BITS
        && format.block() == DEFAULT_BLOCK
        && (1..1 << 33).contains(&weight.geometry().weights())
}
