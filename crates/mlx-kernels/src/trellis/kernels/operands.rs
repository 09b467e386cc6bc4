//! Arguments that the kernels share, checked and in the form that they take.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::RangeInclusive;

use mlx_op::TemplateArg;
use mlx_rs::{Array, Dtype, ops};
use trellis_codec::{Axis, Layout, codebook};

use super::super::{Selection, TrellisWeight, check};
use crate::Error;
use crate::kernels::template;

/// Lanes of a simdgroup.
pub(super) const LANES: i32 = 32;
/// Simdgroups of a threadgroup in the kernels on ordinary lanes and on the matrix unit.
pub(super) const SIMDGROUPS: i32 = 4;
/// The threads that makes.
pub(super) const THREADS: i32 = LANES * SIMDGROUPS;

/// Stored rows and coded columns.
pub(super) fn extents(weight: &TrellisWeight) -> (i32, i32) {
    let geometry = weight.geometry();
    (geometry.rows() as i32, geometry.cols() as i32)
}

/// Bits a weight.
pub(super) fn bits(weight: &TrellisWeight) -> i32 {
    weight.geometry().format().bits() as i32
}

/// Weights a block.
pub(super) fn block(weight: &TrellisWeight) -> i32 {
    weight.geometry().format().block() as i32
}

/// The shaders' number for the layout of the codes.
pub(super) fn layout(weight: &TrellisWeight) -> i32 {
    match weight.geometry().layout() {
        Layout::Rows => 0,
        Layout::BlockPairs => 2,
    }
}

/// The template arguments that say what the codes are: `S R C TB K L`.
pub(super) fn geometry(weight: &TrellisWeight) -> Vec<(String, TemplateArg)> {
    let (rows, cols) = extents(weight);
    template! {
        "S" => weight.scales().dtype(), "R" => rows, "C" => cols, "TB" => block(weight),
        "K" => bits(weight), "L" => weight.geometry().format().state_bits() as i32,
    }
}

/// The code words. Fewer than eight would come to the kernel in constant memory, which it does not
/// expect, so zeros make up the number.
///
/// # Errors
///
/// Those of MLX.
pub(super) fn codes(weight: &TrellisWeight) -> Result<Array, Error> {
    let words = weight.codes();
    if words.size() >= 8 {
        return Ok(words.clone());
    }
    let zeros = ops::zeros_dtype(&[8], Dtype::Uint32)?;
    Ok(ops::concatenate(&[words.flatten(None, None)?, zeros], 0)?)
}

/// x as a matrix `[M, I]`.
///
/// # Errors
///
/// When its element type is not a float, its last dimension not `weight`'s input features, or the
/// product of the others outside `rows`.
pub(super) fn matrix(
    op: &'static str,
    x: &Array,
    weight: &TrellisWeight,
    rows: RangeInclusive<i32>,
) -> Result<Array, Error> {
    check(op, x, weight)?;
    let found = super::super::rows(x);
    if !rows.contains(&found) {
        return Err(Error::Value {
            op,
            argument: "rows of x",
            found: found.to_string(),
            expected: range(&rows),
        });
    }
    Ok(x.reshape(&[found, weight.inputs()])?)
}

fn range(rows: &RangeInclusive<i32>) -> String {
    match (rows.start(), rows.end()) {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

/// As [`matrix`]; an `x` without elements passes whatever `rows` is: its result needs no launch.
///
/// # Errors
///
/// Those of [`matrix`].
pub(super) fn matrix_or_nothing(
    op: &'static str,
    x: &Array,
    weight: &TrellisWeight,
    rows: RangeInclusive<i32>,
) -> Result<Array, Error> {
    if x.size() == 0 {
        return matrix(op, x, weight, 0..=i32::MAX);
    }
    matrix(op, x, weight, rows)
}

/// x's leading dimensions and `outputs` features.
pub(super) fn restored(y: &Array, x: &Array, outputs: i32) -> Result<Array, Error> {
    Ok(y.reshape(&super::super::result_shape(x, outputs))?)
}

/// The sum of partial results, float32 `[M, splits, outputs]`, as a result for x.
pub(super) fn fold(partials: &Array, x: &Array, outputs: i32) -> Result<Array, Error> {
    let sums = partials.sum_axis(1, false)?.as_dtype(x.dtype())?;
    restored(&sums, x, outputs)
}

/// Refuses a weight that is coded along the other axis.
pub(super) fn expect_axis(
    op: &'static str,
    weight: &TrellisWeight,
    axis: Axis,
) -> Result<(), Error> {
    let found = weight.geometry().axis();
    if found == axis {
        return Ok(());
    }
    Err(Error::Value {
        op,
        argument: "the weight's coded axis",
        found: found.index().to_string(),
        expected: axis.index().to_string(),
    })
}

/// Refuses codes that do not run along the outputs in this layout; block pairs must be of 3 bits.
pub(super) fn expect_down_codes(
    op: &'static str,
    weight: &TrellisWeight,
    layout: Layout,
) -> Result<(), Error> {
    let geometry = weight.geometry();
    let fits = geometry.axis() == Axis::Output
        && geometry.layout() == layout
        && (layout == Layout::Rows || geometry.format().bits() == 3);
    if fits {
        return Ok(());
    }
    let text = |layout| match layout {
        Layout::Rows => "in rows",
        Layout::BlockPairs => "in block pairs",
    };
    let (bits, axis) = (geometry.format().bits(), geometry.axis().index());
    Err(Error::Value {
        op,
        argument: "the weight's code",
        found: format!("{bits}-bit, along axis {axis}, {}", text(geometry.layout())),
        expected: match layout {
            Layout::Rows => "a code of any width, along axis 0, in rows".into(),
            Layout::BlockPairs => "a 3-bit code, along axis 0, in block pairs".into(),
        },
    })
}

/// The refusal of a weight whose extents or code a kernel does not take.
pub(super) fn unsupported_geometry(
    op: &'static str,
    weight: &TrellisWeight,
    expected: &str,
) -> Error {
    Error::Value {
        op,
        argument: "the unsupported geometry",
        found: described(weight),
        expected: expected.into(),
    }
}

/// A weight's extents and code in words.
pub(super) fn described(weight: &TrellisWeight) -> String {
    let (rows, cols) = extents(weight);
    let format = weight.geometry().format();
    format!(
        "{rows} stored rows of {cols} columns, {} bits a weight, {} state bits, blocks of {}, axis {}",
        format.bits(),
        format.state_bits(),
        format.block(),
        weight.geometry().axis().index()
    )
}

/// Refuses blocks that are no whole number of runs: 32 columns whose codes start at a word.
pub(super) fn expect_runs(op: &'static str, weight: &TrellisWeight) -> Result<(), Error> {
    let found = block(weight);
    if found % 32 == 0 {
        return Ok(());
    }
    Err(Error::Value {
        op,
        argument: "weights of a block",
        found: found.to_string(),
        expected: "a multiple of 32".into(),
    })
}

/// Refuses a selection whose table of all states does not fit into threadgroup memory.
pub(super) fn expect_table(
    op: &'static str,
    weight: &TrellisWeight,
    selection: Selection,
) -> Result<(), Error> {
    if selection == Selection::TABLE {
        return expect_shared_table(op, weight);
    }
    Ok(())
}

/// Refuses a code whose table of all states does not fit into threadgroup memory.
pub(super) fn expect_shared_table(op: &'static str, weight: &TrellisWeight) -> Result<(), Error> {
    let found = weight.geometry().format().state_bits();
    if found <= 12 {
        return Ok(());
    }
    Err(Error::Value {
        op,
        argument: "state bits",
        found: found.to_string(),
        expected: "at most 12 for a table in threadgroup memory".into(),
    })
}

/// The exact values of all states, float32 `[2^L]`: the last input of the kernels that know a table.
/// A code of few states has zeros behind, so that the table is never small enough for constant memory.
pub(super) fn value_table(weight: &TrellisWeight) -> Array {
    thread_local! {
        static TABLES: RefCell<HashMap<u32, Array>> = RefCell::default();
    }
    let bits = weight.geometry().format().state_bits();
    TABLES.with_borrow_mut(|tables| {
        let make = || {
            let mut values = codebook::values(bits);
            values.resize(values.len().max(8), 0.0);
            Array::from_slice(&values, &[values.len() as i32])
        };
        tables.entry(bits).or_insert_with(make).clone()
    })
}

pub(super) fn div_ceil(value: i32, by: i32) -> i32 {
    (value - 1) / by + 1
}
