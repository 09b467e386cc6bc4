//! Products of few rows with a weight that is coded along its outputs.
//!
//! The inputs are split: each part has a partial result, and MLX's sum over the parts is the result.
//! All the kernels here add the products of a part in order, so that those with the same weights
//! have the same bits, whatever the layout of the codes, the lanes' shares and the rows beside a row.

use mlx_op::{Launch, OutputSpec};
use mlx_rs::{Array, Dtype, ops};
use trellis_codec::{Axis, DEFAULT_BLOCK, Format, Geometry};

use super::super::{Selection, TrellisWeight, result_shape};
use super::decode;
use super::operands::{
    LANES, SIMDGROUPS, bits, block, codes, div_ceil, expect_axis, expect_shared_table,
    expect_table, extents, fold, geometry, layout, matrix_or_nothing, value_table,
};
use crate::kernels::{CachedKernel, template};
use crate::{Context, Error, shaders};

/// Most rows of x.
pub(super) const MOST_ROWS: i32 = 4;
/// Parts of the input rows that are summed apart.
const SPLITS: i32 = 128;

static SCATTER: CachedKernel = CachedKernel::new(shaders::TRELLIS_SCATTER);

/// How float32 values of selections 6 to 13 are computed. No choice changes a bit; which is fastest
/// is up to the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScatterOptions {
    /// Whether values come from a table of all states that each threadgroup makes for itself.
    /// Threadgroups are larger at 3 and 4 bits then.
    pub table: bool,
    /// Where there is no table, whether integer codes become floats through their mantissa instead
    /// of a conversion.
    pub lifted: bool,
}

impl Default for ScatterOptions {
    fn default() -> Self {
        Self {
            table: false,
            lifted: true,
        }
    }
}

impl ScatterOptions {
    /// The shader's number for the way.
    pub(super) fn decode(self) -> i32 {
        match self {
            Self { table: true, .. } => decode::TABLE_UNREFINED,
            Self { lifted: true, .. } => Selection::UNREFINED.decode(),
            Self { .. } => decode::CONVERTED,
        }
    }

    /// Simdgroups of a threadgroup: a table should have many readers.
    pub(super) fn simdgroups(self, weight: &TrellisWeight) -> i32 {
        match (self.table, bits(weight)) {
            (true, 3) => 16,
            (true, 4) => 8,
            _ => SIMDGROUPS,
        }
    }
}

/// Which stream positions of a block a lane owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// Those whose symbols begin in its word.
    Word,
    /// Eight adjacent ones, in blocks of 256.
    Eight,
}

impl Share {
    /// The share of the general kernels: words, if those of a block fit one simdgroup.
    ///
    /// # Errors
    ///
    /// When a block has more words than that and is not of 256 weights.
    pub(super) fn general(op: &'static str, weight: &TrellisWeight) -> Result<Self, Error> {
        let format = weight.geometry().format();
        Self::fitting(format).ok_or_else(|| Error::Value {
            op,
            argument: "words of a block",
            found: format.words_per_block().to_string(),
            expected: format!("at most {LANES}, to fit one simdgroup, or blocks of 256 weights"),
        })
    }

    fn fitting(format: Format) -> Option<Self> {
        if format.words_per_block() <= LANES as usize {
            Some(Self::Word)
        } else if format.block() == DEFAULT_BLOCK {
            Some(Self::Eight)
        } else {
            None
        }
    }

    fn positions(self) -> i32 {
        match self {
            Self::Word => 0,
            Self::Eight => 8,
        }
    }

    /// Simdgroups for one row of codes.
    fn simdgroups(self, weight: &TrellisWeight) -> i32 {
        let blocks = extents(weight).1 / block(weight);
        match self {
            Self::Word => {
                let words = weight.geometry().format().words_per_block() as i32;
                div_ceil(blocks, LANES / words)
            }
            Self::Eight => blocks,
        }
    }
}

/// Whether [`scatter`] takes such codes: along the outputs, in blocks of at most 32 words or of 256 weights.
pub fn scatter_is_eligible(geometry: &Geometry) -> bool {
    geometry.axis() == Axis::Output && Share::fitting(geometry.format()).is_some()
}

/// How the kernel works: all that is not told by x and the weight.
pub(super) struct Form {
    /// The shader's number.
    pub decode: i32,
    pub share: Share,
    /// Simdgroups of a threadgroup.
    pub simdgroups: i32,
    /// Whether all rows of x share a decoded weight.
    pub shares_rows: bool,
}

/// `trellis_scatter`: `x W^T` for 1 to 4 rows of `x`, each of which decodes the weight for itself.
///
/// * `x`: `[..., I]`, float32, float16 or bfloat16; without rows the result is empty.
/// * `weight`: coded along its outputs, in rows or block pairs.
/// * `options`: for selections from 6 on; others have their own arithmetic, and no such table.
/// * Result: `[..., O]`, of x's element type. Sums are float32.
///
/// # Errors
///
/// When an argument does not fit, a block has more than 32 words and is not of 256 weights, a table
/// is asked for under another selection or would not fit into threadgroup memory, the context has no
/// kernels, or MLX refuses.
pub fn scatter(
    x: &Array,
    weight: &TrellisWeight,
    selection: Selection,
    options: ScatterOptions,
) -> Result<Array, Error> {
    let op = "trellis_scatter";
    let is_unrefined = selection >= Selection::UNREFINED;
    if options.table && !is_unrefined {
        return Err(Error::Value {
            op,
            argument: "decode selection with a table of unrefined values",
            found: selection.number().to_string(),
            expected: "6 to 13".into(),
        });
    }
    let decode = if is_unrefined {
        options.decode()
    } else {
        selection.decode()
    };
    let simdgroups = options.simdgroups(weight);
    general(op, x, weight, selection, [decode, simdgroups], false)
}

/// `trellis_scatter_shared`: the same, with the same bits, decoding each weight once for all rows.
///
/// # Errors
///
/// Those of [`scatter`] without options.
pub fn scatter_shared(
    x: &Array,
    weight: &TrellisWeight,
    selection: Selection,
) -> Result<Array, Error> {
    let op = "trellis_scatter_shared";
    let work = [selection.decode(), SIMDGROUPS];
    general(op, x, weight, selection, work, true)
}

fn general(
    op: &'static str,
    x: &Array,
    weight: &TrellisWeight,
    selection: Selection,
    [decode, simdgroups]: [i32; 2],
    shares_rows: bool,
) -> Result<Array, Error> {
    expect_axis(op, weight, Axis::Output)?;
    if decode == decode::TABLE_UNREFINED {
        expect_shared_table(op, weight)?;
    }
    expect_table(op, weight, selection)?;
    let share = Share::general(op, weight)?;
    let matrix = matrix_or_nothing(op, x, weight, 1..=MOST_ROWS)?;
    let form = Form {
        decode,
        share,
        simdgroups,
        shares_rows,
    };
    // SAFETY: the code runs along the outputs; x has up to 4 rows; the share fits the block, and
    // every table threadgroup memory.
    unsafe { launch(x, &matrix, weight, &form) }
}

/// Adds the kernel's node and the sum of its parts.
///
/// # Safety
///
/// `weight` must be coded along its outputs and `matrix` be x as `[M, I]`, M at most 4; the share must
/// fit the blocks, and a table in threadgroup memory be of at most 12 state bits.
pub(super) unsafe fn launch(
    x: &Array,
    matrix: &Array,
    weight: &TrellisWeight,
    form: &Form,
) -> Result<Array, Error> {
    let (rows, (inputs, outputs)) = (matrix.dim(0), extents(weight));
    if rows == 0 || inputs == 0 || outputs == 0 {
        return Ok(ops::zeros_dtype(&result_shape(x, outputs), x.dtype())?);
    }
    let shared = if form.shares_rows { rows } else { 1 };
    let mut template = template! { "T" => x.dtype() };
    template.extend(geometry(weight));
    template.extend(template! {
        "SGS" => form.simdgroups, "SPLITS" => SPLITS, "DECODE" => form.decode, "ROWS" => shared,
        "LAYOUT" => layout(weight), "PER" => form.share.positions(),
    });
    let threads = LANES * form.simdgroups;
    let groups = div_ceil(form.share.simdgroups(weight), form.simdgroups);
    let launch = Launch {
        grid: [threads, groups, SPLITS * (rows / shared)],
        threadgroup: [threads, 1, 1],
        template,
        outputs: vec![OutputSpec::new([rows, SPLITS, outputs], Dtype::Float32)],
        init_value: None,
    };
    let device = Context::current().kernel_device()?;
    let inputs = [
        matrix,
        &codes(weight)?,
        weight.scales(),
        &value_table(weight),
    ];
    // SAFETY: a weight's codes and scales have the extents of its geometry, the table all states, and
    // x as many columns as the weight has stored rows; the rest is the caller's promise.
    let partials = unsafe { SCATTER.apply(&device, &inputs, &launch)? }.remove(0);
    fold(&partials, x, outputs)
}
