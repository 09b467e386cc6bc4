//! `mlxk plan`: which kernel takes which shape, by rows.

use std::process::ExitCode;

use anyhow::ensure;
use mlx_kernels::affine::{BITS, GROUP_SIZES, Problem, plan, table_for};
use mlx_kernels::{Backend, Context, DeviceProfile};
use mlx_rs::Dtype;
use serde_json::json;

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

    /// Print JSON.
    #[arg(long)]
    json: bool,
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
    ensure!(
        BITS.contains(&bits),
        "--bits is {bits}; expected one of {BITS:?}"
    );
    ensure!(
        GROUP_SIZES.contains(&group_size),
        "--group-size is {group_size}; expected one of {GROUP_SIZES:?}"
    );
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
    weights
        .iter()
        .try_for_each(|weight| weight.shape.check_groups(group_size))?;
    let plans_of = |weight: &Weight| {
        let plans = args.rows.iter().map(|&rows| {
            let problem = Problem {
                rows,
                n: weight.shape.n,
                k: weight.shape.k,
                bits,
                group_size,
                dtype: Dtype::Bfloat16,
                scale_dtype: Dtype::Bfloat16,
            };
            plan(&problem, &profile, context.options()).to_string()
        });
        plans.collect::<Vec<_>>()
    };
    if args.json {
        let entries: Vec<_> = weights
            .iter()
            .map(|weight| {
                let plans = plans_of(weight);
                json!({"weight": weight.name, "n": weight.shape.n, "k": weight.shape.k, "rows": args.rows, "plans": plans})
            })
            .collect();
        let device =
            json!({"backend": profile.backend.name(), "architecture": profile.architecture});
        let origin = table_for(&profile).origin;
        let all = json!({"device": device, "bits": bits, "group_size": group_size, "origin": origin, "plans": entries});
        outln!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(ExitCode::SUCCESS);
    }
    outln!(
        "{}-bit weights, groups of {group_size}, on {} {}",
        bits,
        profile.backend,
        profile.architecture
    );
    outln!("crossovers: {}\n", table_for(&profile).origin);
    let rows = args.rows.iter().map(|rows| format!("{rows} rows"));
    let mut table = Table::new(["weight".to_owned()].into_iter().chain(rows));
    for weight in &weights {
        let label = format!("{} {}", weight.shape, weight.name);
        table.push([label].into_iter().chain(plans_of(weight)));
    }
    out!("{}", table.render());
    Ok(ExitCode::SUCCESS)
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
