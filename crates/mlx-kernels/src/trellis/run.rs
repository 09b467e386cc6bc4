//! Products by plan.

use mlx_rs::{Array, Dtype, ops};
use trellis_codec::{Axis, Layout};

use super::kernels::{self, ScatterOptions};
use super::plan::LANE_ROWS;
use super::{Plan, Selection, TrellisWeight, cpu, result_shape, rows};
use crate::{Backend, Context, Error};

/// The product by `plan`, which must be one for these operands and the current context.
pub(super) fn by_plan(
    plan: Plan,
    x: &Array,
    weight: &TrellisWeight,
    selection: Selection,
) -> Result<Array, Error> {
    let rows = rows(x);
    if rows == 0 || weight.outputs() == 0 {
        let shape = result_shape(x, weight.outputs());
        return Ok(ops::zeros_dtype(&shape, x.dtype())?);
    }
    match plan {
        Plan::Cpu => cpu::matmul(x, rows, weight),
        Plan::Expand => expanded(x, weight),
        Plan::ExpandByRow => expanded_by_row(x, rows, weight),
        Plan::Reduce => kernels::reduce(x, weight, selection),
        Plan::ReduceShared => kernels::reduce_shared(x, weight, selection),
        Plan::Scatter { lifted, table } => {
            kernels::scatter(x, weight, selection, ScatterOptions { table, lifted })
        }
        Plan::ScatterShared => kernels::scatter_shared(x, weight, selection),
        Plan::Balanced { lifted, table } => {
            kernels::scatter_balanced3(x, weight, ScatterOptions { table, lifted })
        }
        Plan::BalancedShared { table } => kernels::scatter_balanced3_shared(x, weight, table),
        Plan::InFours => in_fours(x, weight, selection),
        Plan::PrefillTiled => kernels::prefill_tiled(x, weight),
        Plan::PrefillSplit => kernels::prefill_splitk(x, weight),
        Plan::PrefillWide => kernels::prefill_wide(x, weight),
        Plan::DownFactored => down_factored(x, rows, weight),
        Plan::DownMatrix => match weight.geometry().layout() {
            Layout::Rows => kernels::down_mma(x, weight),
            Layout::BlockPairs => kernels::down_k3i_mma(x, weight),
        },
    }
}

fn down_factored(x: &Array, rows: i32, weight: &TrellisWeight) -> Result<Array, Error> {
    match (weight.geometry().layout(), rows) {
        (Layout::Rows, 1) => kernels::down_factored_row(x, weight),
        (Layout::Rows, _) => kernels::down_factored_rows(x, weight),
        (Layout::BlockPairs, 1) => kernels::down_k3i_factored_row(x, weight),
        (Layout::BlockPairs, _) => kernels::down_k3i_factored_rows(x, weight),
    }
}

/// The stock product with the decoded weight.
///
/// On the CPU in float32: the narrow sums of some of MLX's products there would cost more accuracy
/// than the codes themselves at 8 bits. On a GPU, where sums are float32 anyway, in x's type; the
/// result is evaluated, so that no more than one layer's decoded weight is in memory.
fn expanded(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    if !Context::current().backend().is_gpu() {
        let matrix = decoded(weight, Dtype::Float32)?;
        let product = x.as_dtype(Dtype::Float32)?.matmul(matrix.t())?;
        return Ok(product.as_dtype(x.dtype())?);
    }
    let product = x.matmul(decoded(weight, x.dtype())?.t())?;
    product.eval()?;
    Ok(product)
}

/// The weight `[O, I]`: by a kernel where there is one for the back end, else by MLX operations.
fn decoded(weight: &TrellisWeight, dtype: Dtype) -> Result<Array, Error> {
    if Context::current().backend() == Backend::Cpu {
        return weight.expand(dtype);
    }
    let stored = if kernels::expand4_is_eligible(weight, dtype) {
        kernels::expand4(weight)?
    } else {
        kernels::expand(weight, dtype, Selection::default())?
    };
    Ok(match weight.geometry().axis() {
        Axis::Input => stored,
        Axis::Output => stored.t(),
    })
}

/// One stock product a row, all with the same expansion.
fn expanded_by_row(x: &Array, rows: i32, weight: &TrellisWeight) -> Result<Array, Error> {
    let matrix = decoded(weight, Dtype::Float32)?;
    let products = x
        .as_dtype(Dtype::Float32)?
        .reshape(&[rows, weight.inputs()])?
        .split_equal(rows, 0)?
        .iter()
        .map(|row| row.matmul(matrix.t()))
        .collect::<Result<Vec<_>, _>>()?;
    stacked(&products, x, weight)
}

/// The kernels on ordinary lanes for every 4 rows of x. Whether a row shares its decoded weights
/// changes no bit.
fn in_fours(x: &Array, weight: &TrellisWeight, selection: Selection) -> Result<Array, Error> {
    let products = fours(x, weight.inputs())?
        .iter()
        .map(|few| match weight.geometry().axis() {
            Axis::Input => kernels::reduce_shared(few, weight, selection),
            Axis::Output => kernels::scatter_shared(few, weight, selection),
        })
        .collect::<Result<Vec<_>, _>>()?;
    stacked(&products, x, weight)
}

/// x as matrices of 4 rows, the last of what is left.
pub(super) fn fours(x: &Array, inputs: i32) -> Result<Vec<Array>, Error> {
    let rows = rows(x);
    let cuts: Vec<i32> = (LANE_ROWS..rows).step_by(LANE_ROWS as usize).collect();
    Ok(ops::split_at_indices(
        &x.reshape(&[rows, inputs])?,
        &cuts,
        0,
    )?)
}

fn stacked(products: &[Array], x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    let all = ops::concatenate(products, 0)?;
    let all = all.reshape(&result_shape(x, weight.outputs()))?;
    Ok(all.as_dtype(x.dtype())?)
}
