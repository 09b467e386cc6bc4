//! `mlxk plan`: which kernel takes which shape, by rows.

use std::process::ExitCode;

use anyhow::ensure;
use clap::ValueEnum;
use mlx_kernels::affine::{BITS, GROUP_SIZES, Problem, plan, table_for};
use mlx_kernels::trellis::{self, Selection};
use mlx_kernels::{Backend, Context, DeviceProfile, PlanOptions};
use mlx_rs::Dtype;
use serde_json::json;
use trellis_codec::{Axis, DEFAULT_STATE_BITS, Format, Geometry, Layout};

use crate::output::{out, outln};
use crate::shape::Shape;
use crate::table::Table;

/// Hidden and intermediate sizes, query and key/value widths of dense Qwen3 models.
/// Source: the models' published `config.json` files.
const QWEN3: [(&str, i32, i32, i32, i32); 5] = [
    ("0.6B", 1024, 3072, 2048, 1024),
    ("1.7B", 2048, 6144, 2048, 1024),
    ("4B", 2560, 9728, 4096, 1024),
    ("8B", 4096, 12288, 4096, 1024),
    ("14B", 5120, 17408, 5120, 1024),
];

/// Arguments of `mlxk plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shapes of weights, outputs x inputs ("17408x5120"); without any, those of the Qwen3 models.
    #[arg(value_name = "NxK")]
    shapes: Vec<Shape>,

    /// Rows of activations.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 32, 64])]
    rows: Vec<i32>,

    /// Bits a weight.
    #[arg(long, default_value_t = 4)]
    bits: i32,

    /// Weights that share a scale and a bias.
    #[arg(long, default_value_t = 64)]
    group_size: i32,

    /// Plan for another back end than this machine's, also one that it lacks.
    #[arg(long = "for", value_name = "BACKEND")]
    device: Option<Backend>,

    /// Plan for weights in trellis codes of 12 state bits, coded along their inputs or their outputs.
    #[arg(long, value_enum, value_name = "AXIS")]
    trellis: Option<CodedAxis>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a trellis code runs along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CodedAxis {
    /// The input features, as for gate and up
    In,
    /// The output features, as for down
    Out,
}

/// A weight and where it is found.
#[derive(Debug)]
struct Weight {
    name: String,
    shape: Shape,
}

/// Prints the plans.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let (bits, group_size) = (args.bits, args.group_size);
    if args.trellis.is_none() {
        ensure!(
            BITS.contains(&bits),
            "--bits is {bits}; expected one of {BITS:?}"
        );
        ensure!(
            GROUP_SIZES.contains(&group_size),
            "--group-size is {group_size}; expected one of {GROUP_SIZES:?}"
        );
    }
    ensure!(
        args.rows.iter().all(|&rows| rows > 0),
        "--rows must be at least 1"
    );
    let profile = match args.device {
        Some(backend) if backend != context.backend() => foreign(backend),
        _ => context.profile().clone(),
    };
    let weights = if args.shapes.is_empty() {
        qwen3()
    } else {
        named(&args.shapes)
    };
    let plans = weights
        .iter()
        .map(|weight| plans(args, weight.shape, &profile, context.options()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let origins = match args.trellis {
        None => vec![table_for(&profile).origin.to_owned()],
        Some(_) => trellis::profile_lines(&profile),
    };
    if args.json {
        let entries: Vec<_> = weights
            .iter()
            .zip(plans)
            .map(|(weight, plans)| {
                json!({"weight": weight.name, "n": weight.shape.n, "k": weight.shape.k, "rows": args.rows, "plans": plans})
            })
            .collect();
        let device =
            json!({"backend": profile.backend.name(), "architecture": profile.architecture});
        let format = format_json(args);
        let all = json!({"device": device, "format": format, "origins": origins, "plans": entries});
        outln!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(ExitCode::SUCCESS);
    }
    outln!(
        "{}, on {} {}",
        format_words(args),
        profile.backend,
        profile.architecture
    );
    for origin in origins {
        outln!("crossovers: {origin}");
    }
    out!("\n");
    let rows = args.rows.iter().map(|rows| format!("{rows} rows"));
    let mut table = Table::new(["weight".to_owned()].into_iter().chain(rows));
    for (weight, plans) in weights.iter().zip(plans) {
        let label = format!("{} {}", weight.shape, weight.name);
        table.push([label].into_iter().chain(plans));
    }
    out!("{}", table.render());
    Ok(ExitCode::SUCCESS)
}

/// The plans for a weight, by rows.
fn plans(
    args: &Args,
    shape: Shape,
    profile: &DeviceProfile,
    options: PlanOptions,
) -> anyhow::Result<Vec<String>> {
    let (bits, group_size, dtype) = (args.bits, args.group_size, Dtype::Bfloat16);
    if let Some(axis) = args.trellis {
        let geometry = axis.geometry(shape, bits)?;
        let plan = |&rows| {
            let product = trellis::Product {
                geometry,
                rows,
                dtype,
            };
            trellis::plan(&product, profile, options, Selection::default()).to_string()
        };
        return Ok(args.rows.iter().map(plan).collect());
    }
    shape.check_groups(group_size)?;
    let plan = |&rows| {
        let problem = Problem {
            rows,
            n: shape.n,
            k: shape.k,
            bits,
            group_size,
            dtype,
            scale_dtype: dtype,
        };
        plan(&problem, profile, options).to_string()
    };
    Ok(args.rows.iter().map(plan).collect())
}

fn format_words(args: &Args) -> String {
    match args.trellis {
        None => format!("{}-bit weights, groups of {}", args.bits, args.group_size),
        Some(axis) => format!(
            "{}-bit trellis codes, axis {}",
            args.bits,
            axis.axis().index()
        ),
    }
}

fn format_json(args: &Args) -> serde_json::Value {
    match args.trellis {
        None => json!({"mode": "affine", "bits": args.bits, "group_size": args.group_size}),
        Some(axis) => json!({"mode": "trellis", "bits": args.bits, "axis": axis.axis().index()}),
    }
}

impl CodedAxis {
    fn axis(self) -> Axis {
        match self {
            Self::In => Axis::Input,
            Self::Out => Axis::Output,
        }
    }

    /// The geometry of a weight with the longest blocks that fit.
    fn geometry(self, shape: Shape, bits: i32) -> anyhow::Result<Geometry> {
        let (n, k) = (shape.n as usize, shape.k as usize);
        let (rows, cols) = match self {
            Self::In => (n, k),
            Self::Out => (k, n),
        };
        let bits = u32::try_from(bits).unwrap_or(0);
        let format = Format::fitting(bits, DEFAULT_STATE_BITS, cols)?;
        Ok(Geometry::new(
            format,
            self.axis(),
            Layout::Rows,
            rows,
            cols,
        )?)
    }
}

/// A device of which only the back end is known.
fn foreign(backend: Backend) -> DeviceProfile {
    DeviceProfile {
        backend,
        architecture: String::new(),
        cores: None,
    }
}

fn named(shapes: &[Shape]) -> Vec<Weight> {
    shapes
        .iter()
        .map(|&shape| Weight {
            name: String::new(),
            shape,
        })
        .collect()
}

fn qwen3() -> Vec<Weight> {
    QWEN3
        .iter()
        .flat_map(|&(model, hidden, intermediate, query, key_value)| {
            [
                ("gate, up", intermediate, hidden),
                ("down", hidden, intermediate),
                ("q", query, hidden),
                ("k, v", key_value, hidden),
                ("o", hidden, query),
            ]
            .map(|(part, n, k)| Weight {
                name: format!("{model} {part}"),
                shape: Shape { n, k },
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_qwen3_width_is_planned_for() {
        let weights = qwen3();
        assert_eq!(weights.len(), 25);
        let whole = |shape: Shape| shape.k % 128 == 0 && shape.n % 8 == 0;
        assert!(weights.iter().all(|weight| whole(weight.shape)));
    }
}
