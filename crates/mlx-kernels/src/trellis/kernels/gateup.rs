//! `silu(gate) * up` of few rows, gate and up being products with weights coded along their inputs.

use std::ops::RangeInclusive;

use mlx_op::{Launch, OutputSpec};
use mlx_rs::{Array, ops};

use super::super::{Selection, TrellisWeight, result_shape};
use super::decode;
use super::operands::{
    LANES, SIMDGROUPS, div_ceil, expect_shared_table, expect_table, matrix_or_nothing, restored,
    value_table,
};
use super::pair::{Pair, Widths};
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

/// Most rows of x.
const MOST_ROWS: i32 = 4;
/// Simdgroups of a threadgroup that fills a table of all states: enough to pay for it.
const TABLE_SIMDGROUPS: i32 = 16;

static GATEUP: CachedKernel = CachedKernel::new(shaders::TRELLIS_GATEUP);

/// How `silu(gate) * up` is formed from the two products, which are rounded to the result's type
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tail {
    /// Tail A: the sigmoid is computed in float32 and rounded; so are the two products.
    Float,
    /// Tail B: MLX's own operations in the result's type, so that the result has the bits of two
    /// products followed by MLX's `silu(gate) * up`.
    #[default]
    Stock,
}

impl Tail {
    /// The shaders' `TAIL`.
    fn number(self) -> i32 {
        match self {
            Self::Float => 0,
            Self::Stock => 1,
        }
    }
}

/// How [`gateup_mixed`] works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MixedOptions {
    /// How the two products are combined.
    pub tail: Tail,
    /// The arithmetic of the products.
    pub selection: Selection,
    /// From selection 6 on: whether integer codes become floats through their mantissa instead of a
    /// conversion. It changes no bit; which is faster is up to the GPU.
    pub lifted: bool,
}

impl Default for MixedOptions {
    fn default() -> Self {
        Self {
            tail: Tail::default(),
            selection: Selection::default(),
            lifted: true,
        }
    }
}

/// `trellis_gateup`: `silu(x Wg^T) * (x Wu^T)` with [`Tail::Float`] for 1 to 4 rows of `x`, each of
/// which decodes the weights for itself.
///
/// * `x`: `[..., I]`, float32, float16 or bfloat16.
/// * `gate`, `up`: coded along their inputs, of one geometry and width.
/// * Result: `[..., O]`, of x's element type. The products are those of [`reduce`](super::reduce).
///
/// # Errors
///
/// When an argument does not fit, the context has no kernels, or MLX refuses.
pub fn gateup(
    x: &Array,
    gate: &TrellisWeight,
    up: &TrellisWeight,
    selection: Selection,
) -> Result<Array, Error> {
    let op = "trellis_gateup";
    let pair = Pair::new(op, gate, up, Widths::Equal)?;
    let form = Form::base(selection);
    launch(op, x, &pair, &form)
}

/// `trellis_gateup_shared`: the same, with the same bits, decoding each weight once for all rows.
///
/// # Errors
///
/// Those of [`gateup`].
pub fn gateup_shared(
    x: &Array,
    gate: &TrellisWeight,
    up: &TrellisWeight,
    selection: Selection,
) -> Result<Array, Error> {
    let op = "trellis_gateup_shared";
    let pair = Pair::new(op, gate, up, Widths::Equal)?;
    let form = Form {
        shared: true,
        ..Form::base(selection)
    };
    launch(op, x, &pair, &form)
}

/// `trellis_gateup` for one row in wide threadgroups that look values up in a table: the bits of
/// [`gateup`] from selection 6 on.
///
/// # Errors
///
/// Those of [`gateup`]; also for more than 12 state bits.
pub fn gateup_table(x: &Array, gate: &TrellisWeight, up: &TrellisWeight) -> Result<Array, Error> {
    let op = "trellis_gateup_table";
    let pair = Pair::new(op, gate, up, Widths::Equal)?;
    expect_shared_table(op, gate)?;
    let form = Form {
        decode: decode::TABLE_UNREFINED,
        simdgroups: TABLE_SIMDGROUPS,
        rows: 1..=1,
        ..Form::base(Selection::UNREFINED)
    };
    launch(op, x, &pair, &form)
}

/// `trellis_gateup_mixed`: `silu(x Wg^T) * (x Wu^T)` for 1 to 4 rows of `x`, gate and up being of any
/// two widths. Each weight is decoded once for all rows.
///
/// Operands and result are those of [`gateup`] but for the widths; at equal ones [`Tail::Float`]
/// gives its bits.
///
/// # Errors
///
/// Those of [`gateup`].
pub fn gateup_mixed(
    x: &Array,
    gate: &TrellisWeight,
    up: &TrellisWeight,
    options: MixedOptions,
) -> Result<Array, Error> {
    let op = "trellis_gateup_mixed";
    let pair = Pair::new(op, gate, up, Widths::Any)?;
    let base = Form::base(options.selection);
    let converted = base.decode == Selection::UNREFINED.decode() && !options.lifted;
    let form = Form {
        decode: if converted {
            decode::CONVERTED
        } else {
            base.decode
        },
        shared: true,
        tail: options.tail,
        ..base
    };
    launch(op, x, &pair, &form)
}

/// One way to launch the shader.
pub(super) struct Form {
    pub selection: Selection,
    /// The shader's `DECODE`.
    pub decode: i32,
    pub simdgroups: i32,
    /// The rows of x that it takes.
    pub rows: RangeInclusive<i32>,
    /// Whether a weight is decoded once for all rows.
    pub shared: bool,
    /// Sums for each row and projection.
    pub chains: i32,
    pub tail: Tail,
}

impl Form {
    pub(super) fn base(selection: Selection) -> Self {
        Self {
            selection,
            decode: selection.decode(),
            simdgroups: SIMDGROUPS,
            rows: 1..=MOST_ROWS,
            shared: false,
            chains: 2,
            tail: Tail::Float,
        }
    }
}

pub(super) fn launch(
    op: &'static str,
    x: &Array,
    pair: &Pair<'_>,
    form: &Form,
) -> Result<Array, Error> {
    expect_table(op, pair.gate, form.selection)?;
    let matrix = matrix_or_nothing(op, x, pair.gate, form.rows.clone())?;
    let (rows, outputs) = (matrix.dim(0), pair.gate.outputs());
    if matrix.size() == 0 || outputs == 0 {
        return Ok(ops::zeros_dtype(&result_shape(x, outputs), x.dtype())?);
    }
    let shared = if form.shared { rows } else { 1 };
    let threads = LANES * form.simdgroups;
    let mut template = template! { "T" => x.dtype() };
    template.extend(pair.template());
    template.extend(template! {
        "SGS" => form.simdgroups, "DECODE" => form.decode, "ROWS" => shared,
        "CHAINS" => form.chains, "TAIL" => form.tail.number(),
    });
    let launch = Launch {
        grid: [threads, div_ceil(outputs, form.simdgroups), rows / shared],
        threadgroup: [threads, 1, 1],
        template,
        outputs: vec![OutputSpec::new([rows, outputs], x.dtype())],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let [gate_codes, gate_scales, up_codes, up_scales] = &pair.inputs()?;
    let table = &value_table(pair.gate);
    let inputs = [&matrix, gate_codes, gate_scales, up_codes, up_scales, table];
    // SAFETY: codes and scales have the extents of their geometry, which is one for both, the table
    // has all states, and x as many columns as the weights; blocks are whole runs, and the rows are a
    // multiple of ROWS.
    let mut results = unsafe { GATEUP.apply(&device, &inputs, &launch)? };
    restored(&results.remove(0), x, outputs)
}
