//! `mlxk doctor`: what this machine has and what would be chosen on it.

use std::process::ExitCode;

use mlx_kernels::{Backend, Context, affine};
use serde_json::{Map, Value, json};

use crate::output::{out, outln};
use crate::table::Table;

/// Arguments of `mlxk doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the findings; fails only where printing does.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let findings = findings(context);
    if args.json {
        outln!(
            "{}",
            serde_json::to_string_pretty(&Value::Object(findings))?
        );
    } else {
        out!("{}", render(&findings));
    }
    Ok(ExitCode::SUCCESS)
}

fn findings(context: &Context) -> Map<String, Value> {
    let profile = context.profile();
    let available: Vec<_> = Backend::ALL
        .iter()
        .filter(|backend| backend.is_available())
        .map(|backend| backend.name())
        .collect();
    let simulator = match mlx_kernels::simulator::with_config(metal_sim::Config::default()) {
        Ok(_) => format!(
            "compiles kernels with `{}`",
            metal_sim::Config::default().compiler
        ),
        Err(error) => error.to_string(),
    };
    let findings = [
        ("mlxk", json!(env!("CARGO_PKG_VERSION"))),
        ("mlx", json!(mlx_op::mlx_version())),
        (
            "libmlx",
            json!(mlx_op::mlx_library().unwrap_or_else(|| "linked into this program".to_owned())),
        ),
        (
            "system",
            json!(format!(
                "{} {}",
                std::env::consts::OS,
                std::env::consts::ARCH
            )),
        ),
        ("back ends", json!(available)),
        ("back end", json!(context.backend().name())),
        ("why", json!(why(context.backend()))),
        ("device", json!(device(context.backend()))),
        ("architecture", json!(profile.architecture)),
        ("cores", json!(profile.cores)),
        ("simd", json!(mlx_kernels_cpu::Level::best().to_string())),
        ("simulator", json!(simulator)),
        ("batch invariant", json!(context.options().batch_invariant)),
        ("plan table", json!(affine::table_for(profile).origin)),
    ];
    findings
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn device(backend: Backend) -> Option<String> {
    let kind = if backend.is_gpu() {
        mlx_rs::DeviceType::Gpu
    } else {
        mlx_rs::DeviceType::Cpu
    };
    mlx_op::device_name(kind)
}

fn why(backend: Backend) -> &'static str {
    if backend == Backend::detect() {
        match backend {
            Backend::Metal => "MLX reports a Metal device",
            Backend::Cuda => "MLX reports a CUDA device and no Metal device",
            Backend::Cpu | Backend::Sim => "MLX reports neither a Metal nor a CUDA device",
        }
    } else {
        "asked for with --backend or MLXK_BACKEND"
    }
}

fn render(findings: &Map<String, Value>) -> String {
    let mut table = Table::new(["what", "found"]);
    for (name, value) in findings {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Array(values) => values
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(", "),
            Value::Null => "unknown".to_owned(),
            other => other.to_string(),
        };
        table.push([name.clone(), text]);
    }
    table.render()
}
