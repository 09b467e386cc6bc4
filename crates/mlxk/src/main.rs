//! Command line of the MLX kernel extension.

mod bench;
mod checkpoint;
mod commands;
mod output;
mod shape;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{bench as bench_command, doctor, generate, kl, plan, quantize, verify};

/// Quantized-matmul kernels for MLX: what they would do here, and what they do to a model's output.
#[derive(Debug, Parser)]
#[command(name = "mlxk", version, about)]
struct Cli {
    /// How operations run: metal, cuda, cpu or sim. The best that the machine has, if not given.
    #[arg(long, global = true, env = "MLXK_BACKEND", value_name = "NAME")]
    backend: Option<mlx_kernels::Backend>,

    /// Only plans under which a row's result never depends on the rows beside it.
    #[arg(long, global = true)]
    batch_invariant: bool,

    /// Kernels for few rows of MLPs in trellis codes, on a GPU: packed, or verify-width (integer codes,
    /// for up to 8 rows; compare a model's output before you rely on it).
    #[arg(long, global = true, value_name = "POLICY", default_value_t)]
    mlp_policy: mlx_kernels::trellis::MlpPolicy,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure kernels, stock MLX and dense products side by side.
    Bench(bench_command::Args),
    /// Show back end, device and libraries, and what would be chosen here.
    Doctor(doctor::Args),
    /// Generate text from a prompt.
    Generate(generate::Args),
    /// Compare a model's output distributions under these kernels with a baseline's.
    Kl(kl::Args),
    /// Show the kernel chosen for given shapes, by rows.
    Plan(plan::Args),
    /// Write a model anew with its projections quantized.
    Quantize(quantize::Args),
    /// Run every kernel over its cases against float64 references.
    Verify(verify::Args),
}

impl Cli {
    /// Makes the chosen back end the process's.
    fn context(&self) -> anyhow::Result<mlx_kernels::Context> {
        let context = match self.backend {
            Some(backend) => mlx_kernels::Context::new(backend)?,
            None => mlx_kernels::Context::detect(),
        };
        Ok(context.with_options(mlx_kernels::PlanOptions {
            batch_invariant: self.batch_invariant,
            mlp_policy: self.mlp_policy,
        }))
    }
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let context = cli.context()?;
    context
        .clone()
        .set_default()
        .map_err(|_| anyhow::anyhow!("the back end was set before"))?;
    match &cli.command {
        Command::Bench(args) => bench_command::run(args, &context),
        Command::Doctor(args) => doctor::run(args, &context),
        Command::Generate(args) => generate::run(args, &context),
        Command::Kl(args) => kl::run(args, &context),
        Command::Plan(args) => plan::run(args, &context),
        Command::Quantize(args) => quantize::run(args),
        Command::Verify(args) => verify::run(args, &context),
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => code,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mlxk: {error:#}");
            ExitCode::FAILURE
        }
    }
}
