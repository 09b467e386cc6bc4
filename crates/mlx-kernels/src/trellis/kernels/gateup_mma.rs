//! `silu(gate) * up` on the matrix unit, from sums of integer codes, each of which is scaled once.

use std::ops::RangeInclusive;

use mlx_op::{Launch, OutputSpec};
use mlx_rs::{Array, ops};
use trellis_codec::{Axis, Geometry};

use super::super::{TrellisWeight, result_shape};
use super::operands::{
    SIMDGROUPS, THREADS, div_ceil, extents, matrix, restored, unsupported_geometry,
};
use super::pair::{Pair, Widths};
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

/// Rows of x, and of the weights, that a matrix of the unit holds.
const BLOCK: i32 = 8;
/// Columns that a simdgroup takes at a time.
const STEP: i32 = 256;
/// Most blocks of rows of x that share a decoded weight: their sums stay in registers.
const MOST_BLOCKS: i32 = 4;

static GATEUP_MMA: CachedKernel = CachedKernel::new(shaders::TRELLIS_GATEUP_MMA);

/// `trellis_gateup_mma`: `silu(x Wg^T) * (x Wu^T)` with [`Tail::Float`](super::Tail::Float) for 1 to 8
/// rows of `x`. A row's bits do not depend on the other rows.
///
/// * `x`: `[..., I]`, float32, float16 or bfloat16; `I` is a multiple of 256.
/// * `gate`, `up`: coded along their inputs, of one geometry but for the width; `O` is a multiple of 8.
/// * Result: `[..., O]`, of x's element type. Sums are float32.
///
/// # Errors
///
/// When an argument does not fit, the context has no kernels, or MLX refuses.
pub fn gateup_mma(x: &Array, gate: &TrellisWeight, up: &TrellisWeight) -> Result<Array, Error> {
    launch("trellis_gateup_mma", x, [gate, up], 1..=BLOCK, 1)
}

/// `trellis_gateup_mma_wide`: the same, with the same bits, for any number of rows. A weight is decoded
/// once for `blocks` blocks of 8 rows.
///
/// # Errors
///
/// Those of [`gateup_mma`]; unless there are 1 to 4 blocks.
pub fn gateup_mma_wide(
    x: &Array,
    gate: &TrellisWeight,
    up: &TrellisWeight,
    blocks: i32,
) -> Result<Array, Error> {
    let op = "trellis_gateup_mma_wide";
    if !(1..=MOST_BLOCKS).contains(&blocks) {
        return Err(Error::Value {
            op,
            argument: "blocks of rows",
            found: blocks.to_string(),
            expected: format!("1 to {MOST_BLOCKS}"),
        });
    }
    launch(op, x, [gate, up], 0..=i32::MAX, blocks)
}

/// Whether the matrix unit takes gate and up of this geometry, but for their widths: coded along the inputs,
/// with whole matrices of 8 outputs and whole steps of 256 inputs.
pub fn gateup_mma_is_eligible(geometry: &Geometry) -> bool {
    geometry.axis() == Axis::Input
        && geometry.format().block().is_multiple_of(32)
        && geometry.rows().is_multiple_of(BLOCK as usize)
        && geometry.cols().is_multiple_of(STEP as usize)
}

fn launch(
    op: &'static str,
    x: &Array,
    [gate, up]: [&TrellisWeight; 2],
    rows: RangeInclusive<i32>,
    blocks: i32,
) -> Result<Array, Error> {
    let pair = Pair::new(op, gate, up, Widths::Any)?;
    let (outputs, _) = extents(gate);
    if !gateup_mma_is_eligible(gate.geometry()) {
        let expected = "a multiple of 8 rows of a multiple of 256 columns";
        return Err(unsupported_geometry(op, gate, expected));
    }
    let matrix = matrix(op, x, gate, rows)?;
    let rows = matrix.dim(0);
    if matrix.size() == 0 || outputs == 0 {
        return Ok(ops::zeros_dtype(&result_shape(x, outputs), x.dtype())?);
    }
    let mut template = template! { "T" => x.dtype() };
    template.extend(pair.template());
    template.extend(template! { "SG_TG" => SIMDGROUPS, "MT" => blocks });
    let launch = Launch {
        grid: [
            THREADS,
            div_ceil(outputs, BLOCK * SIMDGROUPS),
            div_ceil(rows, BLOCK * blocks),
        ],
        threadgroup: [THREADS, 1, 1],
        template,
        outputs: vec![OutputSpec::new([rows, outputs], x.dtype())],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let [gate_codes, gate_scales, up_codes, up_scales] = &pair.inputs()?;
    let inputs = [&matrix, gate_codes, gate_scales, up_codes, up_scales];
    // SAFETY: codes and scales have the extents of their geometry, which is one for both; x has as many
    // columns as the weights; blocks are whole runs, and the extents whole matrices and steps.
    let mut results = unsafe { GATEUP_MMA.apply(&device, &inputs, &launch)? };
    restored(&results.remove(0), x, outputs)
}
