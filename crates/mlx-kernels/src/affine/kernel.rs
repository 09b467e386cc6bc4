//! The product by this project's GPU kernels.

use mlx_op::{KernelDevice, Launch, OutputSpec};
use mlx_rs::Array;

use super::plan::{BLOCK_ROWS, Plan};
use super::problem::{OP, Operands, Problem};
use crate::Error;
use crate::kernels::{CachedKernel, template};
use crate::shaders;

/// Lanes of a simdgroup.
const LANES: i32 = 32;

static ROWS: CachedKernel = CachedKernel::new(shaders::AFFINE_ROWS);
static TENSOR: CachedKernel = CachedKernel::cuda(shaders::AFFINE_TENSOR);
static MMA: CachedKernel = CachedKernel::new(shaders::AFFINE_MMA);
static SPLIT_MMA: CachedKernel = CachedKernel::new(shaders::AFFINE_SPLIT_MMA);

/// Adds the node of a kernel plan, which must come from [`super::plan::eligible`] for this problem.
pub(super) fn matmul(
    plan: Plan,
    device: &KernelDevice,
    problem: &Problem,
    operands: &Operands,
) -> Result<Array, Error> {
    let (kernel, launch) = match plan {
        Plan::Rows => (&ROWS, rows(problem)),
        Plan::Tensor => (&TENSOR, tensor(problem)),
        Plan::Mma => (&MMA, mma(problem)),
        Plan::SplitMma { tiles, splits } => (&SPLIT_MMA, split_mma(problem, tiles, splits)),
        Plan::Stock | Plan::StockByRow | Plan::Cpu => {
            let (found, expected) = (plan.to_string(), "a plan that names a kernel".to_owned());
            return Err(Error::Value {
                op: OP,
                argument: "plan",
                found,
                expected,
            });
        }
    };
    let x = operands.x.reshape(&[problem.rows, problem.k])?;
    let inputs = [&x, &operands.w, &operands.scales, &operands.biases];
    // SAFETY: `Problem::read` checked shapes and dtypes against each other, and eligibility the
    // conditions on rows and outputs; grids and template arguments are the bodies' own.
    let mut results = unsafe { kernel.apply(device, &inputs, &launch)? };
    let shape = super::result_shape(&operands.x, problem.n);
    Ok(results.remove(0).reshape(&shape)?)
}

fn output(problem: &Problem) -> Vec<OutputSpec> {
    vec![OutputSpec::new([problem.rows, problem.n], problem.dtype)]
}

/// Four outputs a simdgroup, two simdgroups a threadgroup, 16 values a lane and step.
fn rows(problem: &Problem) -> Launch {
    let (outputs, simdgroups, values) = (4, 2, 16);
    let threads = LANES * simdgroups;
    Launch {
        grid: [threads, div_ceil(problem.n, outputs * simdgroups), 1],
        threadgroup: [threads, 1, 1],
        template: template! {
            "T" => problem.dtype, "S" => problem.scale_dtype,
            "M" => problem.rows, "N" => problem.n, "K" => problem.k,
            "BITS" => problem.bits, "GROUP" => problem.group_size,
            "NR" => outputs, "SGS" => simdgroups, "VPT" => values,
        },
        outputs: output(problem),
        init_value: None,
    }
}

/// Sixteen outputs a block, whose four warps share K. Of the shapes tried on an H200 (17408 x 5120 and its
/// transpose, 5120 x 5120), four warps with four groups of 64 ahead in two stages were fastest; no more
/// groups than that keeps 128 activations a quad in registers, and the stages below 48 KiB.
fn tensor(problem: &Problem) -> Launch {
    let (warps, stages) = (4, 2);
    let group_words = problem.group_size / 32 * problem.bits;
    let ahead = 4.min(256 / problem.group_size).min(64 / group_words);
    let threads = LANES * warps;
    Launch {
        grid: [threads, div_ceil(problem.n, 16), 1],
        threadgroup: [threads, 1, 1],
        template: template! {
            "T" => problem.dtype, "S" => problem.scale_dtype,
            "M" => problem.rows, "N" => problem.n, "K" => problem.k,
            "BITS" => problem.bits, "GROUP" => problem.group_size,
            "WARPS" => warps, "AHEAD" => ahead, "STAGES" => stages,
        },
        outputs: output(problem),
        init_value: None,
    }
}

/// Eight outputs a simdgroup, four simdgroups a threadgroup, one block of rows.
fn mma(problem: &Problem) -> Launch {
    let (simdgroups, blocks) = (4, 1);
    let threads = LANES * simdgroups;
    Launch {
        grid: [threads, div_ceil(problem.n, 8 * simdgroups), 1],
        threadgroup: [threads, 1, 1],
        template: template! {
            "T" => problem.dtype, "S" => problem.scale_dtype,
            "M" => problem.rows, "N" => problem.n, "K" => problem.k,
            "BITS" => problem.bits, "GROUP" => problem.group_size,
            "SG_TG" => simdgroups, "MT" => blocks,
        },
        outputs: output(problem),
        init_value: None,
    }
}

fn split_mma(problem: &Problem, tiles: i32, splits: i32) -> Launch {
    let threads = LANES * splits;
    Launch {
        grid: [
            threads,
            problem.n / (8 * tiles),
            div_ceil(problem.rows, BLOCK_ROWS),
        ],
        threadgroup: [threads, 1, 1],
        template: template! {
            "T" => problem.dtype, "S" => problem.scale_dtype,
            "N" => problem.n, "K" => problem.k,
            "BITS" => problem.bits, "GROUP" => problem.group_size,
            "TILES" => tiles, "SPLITS" => splits,
        },
        outputs: output(problem),
        init_value: None,
    }
}

fn div_ceil(value: i32, by: i32) -> i32 {
    (value - 1) / by + 1
}
