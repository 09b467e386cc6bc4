//! Prints how fast the simulator synchronises: simdgroup operations, matrix operations and barriers
//! per second, counted per thread.
//!
//! `cargo run --release -p metal-sim --example switches`

use std::time::Instant;

use metal_sim::{
    Config, DType, KernelSource, Launch, OutputSpec, SimError, Simulator, TemplateArg,
};

const THREADS: usize = 128;
const GROUPS: usize = 64;
const ROUNDS: usize = 2000;

/// Runs `operation`, which updates `float x`, `ROUNDS` times in every thread; prints operations a
/// second.
fn measure(simulator: &Simulator, name: &str, operation: &str) -> Result<(), SimError> {
    let kernel = KernelSource {
        name: name.to_owned(),
        output_names: vec!["out".to_owned()],
        body: format!(
            "float x = float(thread_index_in_simdgroup);
             simdgroup_float8x8 m(1.0f);
             for (int i = 0; i < ROUNDS; i++) {{ {operation} }}
             out[thread_position_in_grid.x] = x + m.thread_elements().x;"
        ),
        ..KernelSource::default()
    };
    let launch = Launch {
        inputs: &[],
        outputs: &[OutputSpec::new(&[THREADS * GROUPS], DType::F32)],
        template: &[("ROUNDS", TemplateArg::Int(ROUNDS as i32))],
        grid: [THREADS * GROUPS, 1, 1],
        threadgroup: [THREADS, 1, 1],
        init_value: None,
    };
    simulator.run(&kernel, &launch)?;
    let start = Instant::now();
    simulator.run(&kernel, &launch)?;
    let count = (THREADS * GROUPS * ROUNDS) as f64;
    println!(
        "{name:<10} {:6.1} million thread operations a second",
        count / start.elapsed().as_secs_f64() / 1e6
    );
    Ok(())
}

fn main() -> Result<(), SimError> {
    let simulator = Simulator::new(Config::default())?;
    println!("{} host threads", simulator.config().threads);
    measure(&simulator, "shuffle", "x = simd_shuffle_xor(x, 1);")?;
    measure(&simulator, "sum", "x = simd_sum(x) * 0.03125f;")?;
    measure(
        &simulator,
        "matrix",
        "simdgroup_multiply_accumulate(m, m, m, m);",
    )?;
    measure(
        &simulator,
        "barrier",
        "threadgroup_barrier(mem_flags::mem_threadgroup);",
    )
}
