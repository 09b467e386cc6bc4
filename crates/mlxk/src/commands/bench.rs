//! `mlxk bench`: this project's kernels, stock MLX and dense products side by side.

use std::process::ExitCode;

use anyhow::ensure;
use indicatif::{ProgressBar, ProgressStyle};
use mlx_kernels::Context;
use mlx_kernels::affine::{BITS, GROUP_SIZES};
use mlx_rs::Dtype;
use serde_json::json;

use crate::bench::{Case, Measurement, bandwidth, measure};
use crate::output::{out, outln};
use crate::shape::Shape;
use crate::table::Table;

/// Arguments of `mlxk bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shapes of weights, outputs x inputs.
    #[arg(value_name = "NxK", required = true)]
    shapes: Vec<Shape>,

    /// Rows of activations.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    rows: Vec<i32>,

    /// Bits a weight.
    #[arg(long, value_delimiter = ',', default_values_t = [4])]
    bits: Vec<i32>,

    /// Weights that share a scale and a bias.
    #[arg(long, default_value_t = 64)]
    group_size: i32,

    /// Element types of activations, scales and biases.
    #[arg(long, value_delimiter = ',', default_values = ["bf16"])]
    dtype: Vec<Precision>,

    /// Every kernel that can compute the product, not only the planned one.
    #[arg(long)]
    every_kernel: bool,

    /// Also the dense product, with the weight in the activations' element type.
    #[arg(long)]
    dense: bool,

    /// Samples of each arm.
    #[arg(long, default_value_t = 9)]
    rounds: usize,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Elements of the largest operand; dense weights take four bytes for each, in two copies.
const MOST_ELEMENTS: i64 = 1 << 29;

/// An element type by its short name.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Precision {
    F32,
    F16,
    Bf16,
}

impl From<Precision> for Dtype {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::F32 => Self::Float32,
            Precision::F16 => Self::Float16,
            Precision::Bf16 => Self::Bfloat16,
        }
    }
}

/// Measures and prints.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    check(args)?;
    let cases = cases(args);
    let bar = ProgressBar::new(cases.len() as u64).with_style(ProgressStyle::with_template(
        "{msg} {wide_bar} {pos}/{len} {per_sec} {eta} left",
    )?);
    bar.set_message("measuring");
    let ceiling = bandwidth(context.backend())?;
    let mut measurements = Vec::new();
    for case in cases {
        let arms = case.arms(context, args.every_kernel, args.dense);
        measurements.extend(measure(case, &arms, args.rounds)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.json {
        let profile = context.profile();
        let report = json!({
            "backend": context.backend().name(),
            "architecture": profile.architecture,
            "mlx": mlx_op::mlx_version(),
            "rounds": args.rounds,
            "bandwidth_gigabytes_per_second": ceiling,
            "measurements": measurements,
        });
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        out!("{}", render(context, ceiling, &measurements));
    }
    Ok(ExitCode::SUCCESS)
}

fn check(args: &Args) -> anyhow::Result<()> {
    let Args {
        bits,
        group_size,
        rows,
        rounds,
        ..
    } = args;
    ensure!(
        bits.iter().all(|b| BITS.contains(b)),
        "--bits {bits:?}: expected some of {BITS:?}"
    );
    ensure!(
        GROUP_SIZES.contains(group_size),
        "--group-size is {group_size}; expected one of {GROUP_SIZES:?}"
    );
    ensure!(
        rows.iter().all(|&rows| rows > 0),
        "--rows {rows:?}: expected at least 1"
    );
    ensure!(
        (1..=1000).contains(rounds),
        "--rounds is {rounds}; expected 1 to 1000"
    );
    for shape in &args.shapes {
        for (what, size) in rows
            .iter()
            .map(|&rows| ("activations", rows))
            .chain([("weight", shape.n)])
        {
            let elements = i64::from(size) * i64::from(shape.k);
            ensure!(
                elements <= MOST_ELEMENTS,
                "{shape}: the {what} would have {elements} elements; at most {MOST_ELEMENTS} are measured"
            );
        }
    }
    args.shapes
        .iter()
        .try_for_each(|shape| shape.check_groups(*group_size))
}

fn cases(args: &Args) -> Vec<Case> {
    let mut cases = Vec::new();
    for &shape in &args.shapes {
        for &bits in &args.bits {
            for &precision in &args.dtype {
                let (group_size, dtype) = (args.group_size, precision.into());
                let of_rows = |&rows| Case {
                    shape,
                    rows,
                    bits,
                    group_size,
                    dtype,
                };
                cases.extend(args.rows.iter().map(of_rows));
            }
        }
    }
    cases
}

fn render(context: &Context, ceiling: f64, measurements: &[Measurement]) -> String {
    let head = [
        "weight",
        "bits",
        "dtype",
        "rows",
        "arm",
        "us",
        "min",
        "max",
        "x stock",
        "GB/s",
        "of ceiling",
    ];
    let mut table = Table::new(head);
    for m in measurements {
        table.push([
            format!("{}x{}", m.n, m.k),
            m.bits.to_string(),
            m.dtype.clone(),
            m.rows.to_string(),
            m.arm.clone(),
            format!("{:.1}", m.microseconds.median),
            format!("{:.1}", m.microseconds.min),
            format!("{:.1}", m.microseconds.max),
            format!("{:.2}", m.times_stock),
            format!("{:.1}", m.gigabytes_per_second),
            format!("{:.0}%", 100.0 * m.gigabytes_per_second / ceiling),
        ]);
    }
    let what = if context.backend().is_gpu() {
        "copied"
    } else {
        "read by all cores"
    };
    let profile = context.profile();
    format!(
        "{} {}: {ceiling:.1} GB/s {what}\n{}",
        profile.backend,
        profile.architecture,
        table.render()
    )
}
