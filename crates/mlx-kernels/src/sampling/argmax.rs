//! The greedy token: argmax of log-probabilities as the logits' element type holds them.

use mlx_op::{Backend, HostError, HostOp, KernelDevice, Launch, OutputSpec};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype, ops};

use super::rows_of;
use crate::host::{floats, is_supported};
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

/// Ids that a threadgroup of the first pass examines, and its threads.
const TILE: i32 = 1024;
const THREADS: i32 = 128;
/// CUDA's limit on blocks along y; more rows are done in several launches.
const MAX_ROWS: i32 = 65535;

static TILES: CachedKernel = CachedKernel::new(shaders::NORMALIZED_ARGMAX_TILES);
static FINAL: CachedKernel = CachedKernel::new(shaders::NORMALIZED_ARGMAX_FINAL);

/// `argmax(logits - logsumexp(logits))` over the last axis, the difference rounded to the logits'
/// element type before it is compared, ties to the lowest id.
///
/// * `logits`: `[..., V]`; float32, float16 or bfloat16. Result: uint32, the leading dimensions.
///
/// Rounding can make equal what the logits alone would order, so this may differ from
/// `argmax(logits)`; it is what sampling at temperature 0 from rounded log-probabilities gives. A row
/// whose logsumexp is not finite gives 0. Logits of other types, and empty ones, go to the stock
/// operations.
///
/// # Errors
///
/// Those of the stock operations, and of launching a kernel.
pub fn normalized_argmax(logits: &Array) -> Result<Array, Error> {
    let empty = logits.ndim() == 0 || logits.shape().contains(&0);
    if empty || !is_supported(logits.dtype()) {
        return stock(logits);
    }
    let context = Context::current();
    match context.backend() {
        Backend::Cpu => host(logits),
        Backend::Metal | Backend::Cuda | Backend::Sim => kernels(&context.kernel_device()?, logits),
    }
}

fn stock(logits: &Array) -> Result<Array, Error> {
    let scores = ops::subtract(logits, logits.logsumexp_axis(-1, true)?)?;
    Ok(ops::indexing::argmax_axis(scores, -1, false)?)
}

fn leading(logits: &Array) -> &[i32] {
    &logits.shape()[..logits.ndim() - 1]
}

fn host(logits: &Array) -> Result<Array, Error> {
    let output = OutputSpec::new(leading(logits), Dtype::Uint32);
    let mut results =
        HostOp::new("normalized_argmax").apply(&[logits], &[output], |inputs, outputs| {
            let tokens = outputs[0].as_mut_slice::<u32>()?;
            mlx_kernels_cpu::sampling::greedy_token(floats(&inputs[0])?, tokens)
                .map_err(HostError::failed)
        })?;
    Ok(results.remove(0))
}

fn kernels(device: &KernelDevice, logits: &Array) -> Result<Array, Error> {
    let (rows, vocabulary) = (rows_of(logits), logits.dim(-1));
    let flat = logits.reshape(&[rows, vocabulary])?;
    let normalizer = flat.logsumexp_axis(-1, false)?;
    let tokens = if rows <= MAX_ROWS {
        passes(device, &flat, &normalizer)?
    } else {
        let chunks = (0..rows).step_by(MAX_ROWS as usize).map(|start| {
            let end = rows.min(start + MAX_ROWS);
            passes(
                device,
                &flat.index(start..end),
                &normalizer.index(start..end),
            )
        });
        ops::concatenate(&chunks.collect::<Result<Vec<_>, _>>()?, 0)?
    };
    Ok(tokens.reshape(leading(logits))?)
}

/// The best candidate of each tile of ids, then the best tile.
fn passes(device: &KernelDevice, logits: &Array, normalizer: &Array) -> Result<Array, Error> {
    let (rows, vocabulary) = (logits.dim(0), logits.dim(1));
    let tiles = (vocabulary - 1) / TILE + 1;
    let first = Launch {
        grid: [tiles * THREADS, rows, 1],
        threadgroup: [THREADS, 1, 1],
        template: template! { "T" => logits.dtype(), "V" => vocabulary, "TILES" => tiles },
        outputs: vec![
            OutputSpec::new([rows, tiles], Dtype::Float32),
            OutputSpec::new([rows, tiles], Dtype::Uint32),
        ],
        init_value: None,
    };
    let second = Launch {
        grid: [THREADS, rows, 1],
        threadgroup: [THREADS, 1, 1],
        template: template! { "TILES" => tiles },
        outputs: vec![OutputSpec::new([rows], Dtype::Uint32)],
        init_value: None,
    };
    // SAFETY: logits are `[rows, V]`, the normalizer `[rows]` of the same type, and the grids are the
    // bodies' own.
    let mut tokens = unsafe {
        let best = TILES.apply(device, &[logits, normalizer], &first)?;
        FINAL.apply(device, &best.iter().collect::<Vec<_>>(), &second)?
    };
    Ok(tokens.remove(0))
}
