//! `mlxk verify`: whether every kernel computes here what it must.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::ensure;
use indicatif::{ProgressBar, ProgressStyle};
use mlx_kernels::{Backend, Context, simulator};
use mlxk::verify::{
    Case, Effort, Failure, Kernel, Line, Report, declared, dtype_name, run as run_cases,
    simulator_config,
};
use serde_json::json;

use crate::output::{out, outln};
use crate::table::Table;

/// Arguments of `mlxk verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kernels to verify; all of the back end, if not given.
    #[arg(long = "kernel", value_name = "NAME", value_delimiter = ',')]
    kernels: Vec<Kernel>,

    /// Fewer cases: every format and type once, instead of all combinations.
    #[arg(long)]
    quick: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Exit status when a case does not hold.
const VERIFICATION_FAILED: u8 = 3;
/// Failing cases that are spelled out.
const SPELLED_OUT: usize = 20;

/// Runs the cases, prints what they came to, and fails if one does not hold.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let backend = context.backend();
    for kernel in &args.kernels {
        ensure!(
            kernel.runs_on(backend),
            "there is no kernel {kernel} on back end {backend}"
        );
    }
    let context = strict(context)?;
    let effort = if args.quick {
        Effort::Quick
    } else {
        Effort::Full
    };
    let mut cases = declared(backend, effort);
    cases.retain(|case| args.kernels.is_empty() || args.kernels.contains(&case.kernel()));

    let bar = progress_bar(cases.len());
    let start = Instant::now();
    let outcomes = run_cases(&cases, &context, &|| bar.inc(1));
    let time = start.elapsed();
    bar.finish_and_clear();

    let report = Report::new(&cases, &outcomes);
    if args.json {
        outln!("{}", to_json(&report, &context, time)?);
    } else {
        out!("{}", render(&report, &context, time));
    }
    Ok(if report.holds() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(VERIFICATION_FAILED)
    })
}

/// The same context; on the simulator, with one that is strict about bounds and races.
fn strict(context: &Context) -> anyhow::Result<Context> {
    let context = context.clone();
    if context.backend() != Backend::Sim {
        return Ok(context);
    }
    let simulator = simulator::with_config(simulator_config())?;
    Ok(context.with_simulator(simulator))
}

/// Shown where stderr is a terminal.
fn progress_bar(cases: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} cases  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(cases as u64).with_style(style)
}

fn to_json(report: &Report, context: &Context, time: Duration) -> anyhow::Result<String> {
    let line = |line: &Line| {
        json!({
            "kernel": line.kernel.name(),
            "dtype": line.dtype,
            "cases": line.cases,
            "failed": line.failed,
            "worst_relative_error": line.findings.relative_error,
            "worst_error_of_bound": line.findings.of_bound,
            "bit_equalities": line.findings.equalities,
            "seconds": line.time.as_secs_f64(),
        })
    };
    let failure = |(case, failure): &(Case, Failure)| {
        json!({
            "kernel": case.kernel().name(),
            "dtype": dtype_name(case.dtype()),
            "case": case.to_string(),
            "failure": failure.to_string(),
        })
    };
    let all = json!({
        "backend": context.backend().name(),
        "architecture": context.profile().architecture,
        "holds": report.holds(),
        "seconds": time.as_secs_f64(),
        "kernels": report.lines.iter().map(line).collect::<Vec<_>>(),
        "failures": report.failures.iter().map(failure).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&all)?)
}

fn render(report: &Report, context: &Context, time: Duration) -> String {
    let (backend, architecture) = (context.backend(), &context.profile().architecture);
    let cases: usize = report.lines.iter().map(|line| line.cases).sum();
    let summary = match report.failures.len() {
        0 => format!("all {cases} cases hold"),
        failed => format!("{failed} of {cases} cases do not hold"),
    };
    format!(
        "{backend} {architecture}, against float64 references\n\n{}\n{}{summary}, in {:.1} s\n",
        table(report).render(),
        failures(report),
        time.as_secs_f64()
    )
}

fn table(report: &Report) -> Table {
    let mut table = Table::new([
        "kernel",
        "type",
        "cases",
        "relative error",
        "of bound",
        "bit equalities",
        "seconds",
        "verdict",
    ]);
    for line in &report.lines {
        let measured = line.findings.of_bound > 0.0;
        let number = |text: String| if measured { text } else { "exact".to_owned() };
        table.push([
            line.kernel.name().to_owned(),
            line.dtype.to_owned(),
            line.cases.to_string(),
            number(format!("{:.2e}", line.findings.relative_error)),
            number(format!("{:.0}%", line.findings.of_bound * 100.0)),
            line.findings.equalities.to_string(),
            format!("{:.1}", line.time.as_secs_f64()),
            verdict(line),
        ]);
    }
    table
}

/// The first failing cases, each with its reason, and how many there are besides.
fn failures(report: &Report) -> String {
    let spelled_out = report.failures.iter().take(SPELLED_OUT);
    let mut lines: Vec<String> = spelled_out
        .map(|(case, failure)| format!("{case}\n    {failure}\n"))
        .collect();
    let failed = report.failures.len();
    if failed > SPELLED_OUT {
        lines.push(format!("and {} more\n", failed - SPELLED_OUT));
    }
    lines.concat()
}

fn verdict(line: &Line) -> String {
    match line.failed {
        _ if line.failed == line.cases => "fails".to_owned(),
        0 => "holds".to_owned(),
        failed => format!("{failed} fail"),
    }
}
