//! The stored matrix.

use mlx_op::{Launch, OutputSpec};
use mlx_rs::{Array, Dtype, ops};

use super::super::{Selection, TrellisWeight};
use super::operands::{extents, geometry, layout, value_table};
use crate::host::is_supported;
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

/// Threads of a threadgroup, along a row.
const THREADS: i32 = 256;

static EXPAND: CachedKernel = CachedKernel::new(shaders::TRELLIS_EXPAND);

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
        grid: [cols, rows, 1],
        threadgroup: [cols.min(THREADS), 1, 1],
        template,
        outputs: vec![OutputSpec::new([rows, cols], dtype)],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let inputs = [weight.codes(), weight.scales(), &value_table(weight)];
    // SAFETY: a weight's codes and scales have the extents of its geometry, and the table all states.
    let mut results = unsafe { EXPAND.apply(&device, &inputs, &launch)? };
    Ok(results.remove(0))
}
