//! The memory bandwidth that a product's bytes are held against.

use std::hint::black_box;
use std::time::Instant;

use mlx_kernels::Backend;
use mlx_rs::{Array, ops};

use super::alternate;

/// Bytes of the array that is read or copied.
const BYTES: usize = 256 << 20;
const ROUNDS: usize = 9;

/// Bytes a second in 10^9: on a GPU those that a device-wide copy reads and writes, on the CPU those
/// that all cores together read.
pub fn bandwidth(backend: Backend) -> anyhow::Result<f64> {
    if backend.is_gpu() { copy() } else { Ok(read()) }
}

fn copy() -> anyhow::Result<f64> {
    let source = ops::ones::<f32>(&[(BYTES / 4) as i32])?;
    source.eval()?;
    // Adding one reads and writes every element once: MLX has no plain copy that it does not elide.
    let one = Array::from_f32(1.0);
    let spread = alternate(&[()], ROUNDS, |(), _| Ok(ops::add(&source, &one)?))?;
    Ok(2.0 * BYTES as f64 / spread[0].median / 1e3)
}

fn read() -> f64 {
    let words = vec![1_u64; BYTES / 8];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for part in words.chunks(words.len().div_ceil(cores)) {
                    scope.spawn(|| black_box(part.iter().fold(0_u64, |sum, &word| sum ^ word)));
                }
            });
            BYTES as f64 / start.elapsed().as_secs_f64() / 1e9
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[ROUNDS / 2]
}
