//! Residual addition with RMS norm.

use mlx_op::{Backend, HostError, HostOp, KernelDevice, Launch, OutputSpec};
use mlx_rs::{Array, ops};

use crate::host::{floats, floats_mut, is_supported};
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

const OP: &str = "add_rms_norm";

/// Lanes of a simdgroup, and the most threads of a group.
const LANES: i32 = 32;
const MAX_THREADS: i32 = 1024;
/// Columns that a thread takes in one round, as in MLX's own kernel.
const COLUMNS_PER_THREAD: i32 = 4;

static KERNEL: CachedKernel = CachedKernel::new(shaders::ADD_RMS_NORM);

/// The residual sum and its norm.
#[derive(Debug, Clone)]
pub struct AddRmsNorm {
    /// `x + update`, rounded to their element type.
    pub residual: Array,
    /// `weight * residual / sqrt(mean(residual^2) + eps)`.
    pub normalized: Array,
}

/// `residual = x + update` and the RMS norm of the residual over its last axis, in one pass.
///
/// * `x`, `update`: `[..., D]`, one shape, one of float32, float16 and bfloat16.
/// * `weight`: `[D]`, of the same element type. `eps`: at least 0.
///
/// The residual is rounded before it is squared, and its product with the reciprocal root before the
/// weight multiplies it, as by MLX's `add` and `rms_norm`.
///
/// # Errors
///
/// Names the argument that does not fit, what it is and what it must be.
pub fn add_rms_norm(
    x: &Array,
    update: &Array,
    weight: &Array,
    eps: f32,
) -> Result<AddRmsNorm, Error> {
    check(x, update, weight, eps)?;
    let context = Context::current();
    let rows: i64 = x.shape()[..x.ndim() - 1]
        .iter()
        .map(|&size| i64::from(size))
        .product();
    match context.backend() {
        _ if rows == 0 => stock(x, update, weight, eps),
        Backend::Cpu => host(x, update, weight, eps),
        Backend::Metal | Backend::Cuda | Backend::Sim => match launch(x, rows, eps) {
            Some(launch) => kernel(&context.kernel_device()?, x, update, weight, &launch),
            None => stock(x, update, weight, eps),
        },
    }
}

fn check(x: &Array, update: &Array, weight: &Array, eps: f32) -> Result<(), Error> {
    let refuse = |argument, array: &Array, expected: String| {
        Err(Error::Shape {
            op: OP,
            argument,
            found: array.shape().to_vec(),
            expected,
        })
    };
    if !is_supported(x.dtype()) {
        let expected = "float32, float16 or bfloat16".to_owned();
        return Err(Error::Dtype {
            op: OP,
            argument: "x",
            found: x.dtype(),
            expected,
        });
    }
    for (argument, array) in [("update", update), ("weight", weight)] {
        if array.dtype() != x.dtype() {
            let (found, expected) = (array.dtype(), format!("{:?}, as x", x.dtype()));
            return Err(Error::Dtype {
                op: OP,
                argument,
                found,
                expected,
            });
        }
    }
    if x.ndim() == 0 || x.dim(-1) == 0 {
        return refuse("x", x, "a last dimension of at least 1".to_owned());
    }
    if update.shape() != x.shape() {
        return refuse("update", update, format!("{:?}, as x", x.shape()));
    }
    if weight.shape() != [x.dim(-1)] {
        return refuse(
            "weight",
            weight,
            format!("[{}], x's last dimension", x.dim(-1)),
        );
    }
    if eps.is_nan() || eps < 0.0 {
        let (found, expected) = (eps.to_string(), "a number of at least 0".to_owned());
        return Err(Error::Value {
            op: OP,
            argument: "eps",
            found,
            expected,
        });
    }
    Ok(())
}

fn stock(x: &Array, update: &Array, weight: &Array, eps: f32) -> Result<AddRmsNorm, Error> {
    let residual = ops::add(x, update)?;
    let normalized = mlx_rs::fast::rms_norm(&residual, Some(weight), eps)?;
    Ok(AddRmsNorm {
        residual,
        normalized,
    })
}

fn host(x: &Array, update: &Array, weight: &Array, eps: f32) -> Result<AddRmsNorm, Error> {
    let output = OutputSpec::new(x.shape(), x.dtype());
    let outputs = [output.clone(), output];
    let results =
        HostOp::new(OP).apply(&[x, update, weight], &outputs, move |inputs, outputs| {
            let ([x, update, weight], [residual, normalized]) = (inputs, outputs) else {
                return Err(HostError::failed("expected three inputs and two outputs"));
            };
            mlx_kernels_cpu::norm::add_rms_norm(
                floats(x)?,
                floats(update)?,
                floats(weight)?,
                eps,
                floats_mut(residual)?,
                floats_mut(normalized)?,
            )
            .map_err(HostError::failed)
        })?;
    pair(results)
}

/// The launch for `rows` rows; `None` where the body's 32-bit indices do not reach.
fn launch(x: &Array, rows: i64, eps: f32) -> Option<Launch> {
    let columns = x.dim(-1);
    let warps = (columns - 1) / (LANES * COLUMNS_PER_THREAD) + 1;
    let threads = MAX_THREADS.min(LANES.saturating_mul(warps));
    let grid = i32::try_from(rows.checked_mul(i64::from(threads))?).ok()?;
    u32::try_from(rows.checked_mul(i64::from(columns))?).ok()?;
    let output = OutputSpec::new(x.shape(), x.dtype());
    Some(Launch {
        grid: [grid, 1, 1],
        threadgroup: [threads, 1, 1],
        template: template! {
            "T" => x.dtype(), "D" => columns, "THREADS" => threads,
            // Template arguments are integers: the bits of a float that is not negative are one.
            "EPS" => eps.abs().to_bits().cast_signed(),
        },
        outputs: vec![output.clone(), output],
        init_value: None,
    })
}

fn kernel(
    device: &KernelDevice,
    x: &Array,
    update: &Array,
    weight: &Array,
    launch: &Launch,
) -> Result<AddRmsNorm, Error> {
    // SAFETY: `check` compared shapes and dtypes; `launch` is the body's own geometry.
    pair(unsafe { KERNEL.apply(device, &[x, update, weight], launch)? })
}

fn pair(mut results: Vec<Array>) -> Result<AddRmsNorm, Error> {
    let (Some(normalized), Some(residual)) = (results.pop(), results.pop()) else {
        return Err(mlx_op::Error::NoOutputs {
            name: OP.to_owned(),
        }
        .into());
    };
    Ok(AddRmsNorm {
        residual,
        normalized,
    })
}
