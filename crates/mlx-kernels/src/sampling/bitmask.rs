//! Vocabulary masks: ids that a grammar forbids get the logit minus infinity.

use mlx_op::{Backend, HostError, HostOp, KernelDevice, Launch, OutputSpec};
use mlx_rs::{Array, Dtype, ops};

use super::rows_of;
use crate::host::{floats, floats_mut, is_supported};
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

const OP: &str = "apply_token_bitmask";
const THREADS: i32 = 128;

static KERNEL: CachedKernel = CachedKernel::new(shaders::TOKEN_BITMASK);

/// `logits + (allowed ? 0 : -infinity)` in the logits' element type.
///
/// * `logits`: `[..., V]`; float32, float16 or bfloat16.
/// * `bits`: uint32 (or int32, by its bits) `[words]`, one mask for all rows, or `[rows, words]`, a
///   mask for each. Id `i` is allowed when bit `i % 32` of word `i / 32` is set. An id whose word is
///   missing is not allowed; words and bits beyond V mean nothing.
///
/// It is a real addition: NaN stays NaN, `-0` becomes `+0`, and `+infinity` masked is NaN.
///
/// # Errors
///
/// Names the argument that does not fit, what it is and what it must be.
pub fn apply_token_bitmask(logits: &Array, bits: &Array) -> Result<Array, Error> {
    let bits = check(logits, bits)?;
    if logits.shape().contains(&0) {
        return Ok(logits.clone());
    }
    let context = Context::current();
    if bits.size() == 0 {
        return Ok(ops::add(logits, rejection(logits.dtype())?)?);
    }
    match context.backend() {
        Backend::Cpu if bits.dim(0) == 1 => host(logits, &bits),
        Backend::Cpu => stock(logits, &bits),
        Backend::Metal | Backend::Cuda | Backend::Sim => match launch(logits) {
            Some(launch) => kernel(&context.kernel_device()?, logits, &bits, &launch),
            None => stock(logits, &bits),
        },
    }
}

/// The masks as uint32 `[1 or rows, words]`.
fn check(logits: &Array, bits: &Array) -> Result<Array, Error> {
    if !is_supported(logits.dtype()) {
        let expected = "float32, float16 or bfloat16".to_owned();
        return Err(Error::Dtype {
            op: OP,
            argument: "logits",
            found: logits.dtype(),
            expected,
        });
    }
    if logits.ndim() == 0 {
        let (found, expected) = (Vec::new(), "at least one dimension".to_owned());
        return Err(Error::Shape {
            op: OP,
            argument: "logits",
            found,
            expected,
        });
    }
    let bits = match bits.dtype() {
        Dtype::Uint32 => bits.clone(),
        Dtype::Int32 => bits.view_dtype(Dtype::Uint32)?,
        found => {
            let expected = "uint32 or int32 words".to_owned();
            return Err(Error::Dtype {
                op: OP,
                argument: "bits",
                found,
                expected,
            });
        }
    };
    let rows = rows_of(logits);
    match *bits.shape() {
        [words] => Ok(bits.reshape(&[1, words])?),
        [masks, _] if masks == 1 || masks == rows => Ok(bits),
        _ => {
            let (found, expected) = (bits.shape().to_vec(), format!("[words] or [{rows}, words]"));
            Err(Error::Shape {
                op: OP,
                argument: "bits",
                found,
                expected,
            })
        }
    }
}

/// Minus infinity in `dtype`, as a scalar.
fn rejection(dtype: Dtype) -> Result<Array, Error> {
    Ok(Array::from_f32(f32::NEG_INFINITY).as_dtype(dtype)?)
}

fn stock(logits: &Array, bits: &Array) -> Result<Array, Error> {
    let (rows, vocabulary) = (rows_of(logits), logits.dim(-1));
    let ids = ops::arange::<_, u32>(None, vocabulary, None)?;
    let words = bits.dim(1);
    let width = Array::from_slice(&[32_u32], &[1]);
    let word = ops::floor_divide(&ids, &width)?;
    let present = ops::lt(&word, Array::from_slice(&[words as u32], &[1]))?;
    let word = ops::minimum(&word, Array::from_slice(&[words as u32 - 1], &[1]))?;
    let powers = Array::from_slice(&std::array::from_fn::<u32, 32, _>(|bit| 1 << bit), &[32]);
    let power = powers.take(ops::remainder(&ids, &width)?)?;
    let shifted = ops::floor_divide(bits.take_axis(&word, 1)?, &power)?;
    let set = ops::remainder(&shifted, Array::from_slice(&[2_u32], &[1]))?;
    let allowed = ops::logical_and(set.as_dtype(Dtype::Bool)?, present)?;
    let dtype = logits.dtype();
    let zero = Array::from_f32(0.0).as_dtype(dtype)?;
    let mask = ops::select(&allowed, zero, rejection(dtype)?)?;
    let masked = ops::add(logits.reshape(&[rows, vocabulary])?, mask)?;
    Ok(masked.reshape(logits.shape())?)
}

/// One mask for all rows, which is all that the CPU code takes.
fn host(logits: &Array, bits: &Array) -> Result<Array, Error> {
    let vocabulary = logits.dim(-1) as usize;
    let output = OutputSpec::new(logits.shape(), logits.dtype());
    let mut results =
        HostOp::new(OP).apply(&[logits, bits], &[output], move |inputs, outputs| {
            mlx_kernels_cpu::sampling::apply_token_bitmask(
                floats(&inputs[0])?,
                vocabulary,
                inputs[1].as_slice()?,
                floats_mut(&mut outputs[0])?,
            )
            .map_err(HostError::failed)
        })?;
    Ok(results.remove(0))
}

/// One thread an element; `None` where the body's 32-bit indices do not reach.
fn launch(logits: &Array) -> Option<Launch> {
    let elements = i32::try_from(logits.size()).ok()?;
    let vocabulary = logits.dim(-1);
    Some(Launch {
        grid: [elements, 1, 1],
        threadgroup: [THREADS, 1, 1],
        template: template! { "T" => logits.dtype(), "V" => vocabulary },
        outputs: vec![OutputSpec::new(
            [elements / vocabulary, vocabulary],
            logits.dtype(),
        )],
        init_value: None,
    })
}

fn kernel(
    device: &KernelDevice,
    logits: &Array,
    bits: &Array,
    launch: &Launch,
) -> Result<Array, Error> {
    let flat = logits.reshape(&[rows_of(logits), logits.dim(-1)])?;
    // SAFETY: `check` brought the masks to `[1 or rows, words]` with at least one word; the grid is the
    // body's own.
    let mut results = unsafe { KERNEL.apply(device, &[&flat, bits], launch)? };
    Ok(results.remove(0).reshape(logits.shape())?)
}
