//! `mlxk plan`: which kernel takes which shape, by rows.

use std::process::ExitCode;
use std::str::FromStr;

use anyhow::ensure;
use mlx_kernels::affine::{BITS, GROUP_SIZES, Problem, plan, table_for};
use mlx_kernels::{Backend, Context, DeviceProfile};
use mlx_rs::Dtype;
use serde_json::json;

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

/// A weight's shape and where it is found.
#[derive(Debug, Clone)]
struct Shape {
    name: String,
    n: i32,
    k: i32,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once('x')
            .and_then(|(n, k)| Some((n.parse().ok()?, k.parse().ok()?)))
            .filter(|&(n, k): &(i32, i32)| n > 0 && k > 0)
            .map(|(n, k)| Self {
                name: String::new(),
                n,
                k,
            })
            .ok_or_else(|| {
                format!("{text:?} is not a shape: expected outputs x inputs, as 17408x5120")
            })
    }
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
    let shapes = if args.shapes.is_empty() {
        qwen3()
    } else {
        args.shapes.clone()
    };
    for shape in &shapes {
        ensure!(
            shape.k % group_size == 0,
            "{}x{}: the inner width is not a multiple of the group size, {group_size}",
            shape.n,
            shape.k
        );
    }
    let plans_of = |shape: &Shape| {
        let plans = args.rows.iter().map(|&rows| {
            let problem = Problem {
                rows,
                n: shape.n,
                k: shape.k,
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
        let entries: Vec<_> = shapes
            .iter()
            .map(|shape| {
                let plans = plans_of(shape);
                json!({"shape": shape.name, "n": shape.n, "k": shape.k, "rows": args.rows, "plans": plans})
            })
            .collect();
        let device =
            json!({"backend": profile.backend.name(), "architecture": profile.architecture});
        let origin = table_for(&profile).origin;
        let all = json!({"device": device, "bits": bits, "group_size": group_size, "origin": origin, "plans": entries});
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{}-bit weights, groups of {group_size}, on {} {}",
        bits, profile.backend, profile.architecture
    );
    println!("crossovers: {}\n", table_for(&profile).origin);
    let rows = args.rows.iter().map(|rows| format!("{rows} rows"));
    let mut table = Table::new(["weight".to_owned()].into_iter().chain(rows));
    for shape in &shapes {
        let label = format!("{}x{} {}", shape.n, shape.k, shape.name);
        table.push([label].into_iter().chain(plans_of(shape)));
    }
    print!("{}", table.render());
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

fn qwen3() -> Vec<Shape> {
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
            .map(|(part, n, k)| Shape {
                name: format!("{model} {part}"),
                n,
                k,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_parse_and_nonsense_is_named() {
        let shape: Shape = "17408x5120".parse().unwrap();
        assert_eq!((shape.n, shape.k), (17408, 5120));
        for text in ["", "x", "8", "8x", "0x8", "-8x64", "8x64x2"] {
            assert!(
                text.parse::<Shape>()
                    .unwrap_err()
                    .contains("outputs x inputs"),
                "{text:?}"
            );
        }
    }

    #[test]
    fn every_qwen3_width_is_planned_for() {
        let shapes = qwen3();
        assert_eq!(shapes.len(), 25);
        assert!(
            shapes
                .iter()
                .all(|shape| shape.k % 128 == 0 && shape.n % 8 == 0)
        );
    }
}
