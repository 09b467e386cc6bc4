//! How fast products with affine weights are here, beside what the machine could do.
//!
//! ```text
//! cargo run --release -p mlx-kernels-cpu --example throughput -- [options]
//!   --shape NxK     outputs x inner width        (4096x2560; repeatable)
//!   --rows LIST     rows of activations          (1,8,32)
//!   --bits LIST     bits a weight                (4)
//!   --group G       weights a group              (64)
//!   --type T        f32, f16 or bf16, for activations, scales and result (bf16)
//!   --level L       avx512, avx2, neon, portable (the best)
//!   --threads N     (all cores)
//!   --repeats N     timed calls a line           (15)
//! ```
//!
//! Weights rotate over more than any last-level cache holds, and every row count takes its turn in
//! each round, with the two peaks measured between them. Times are medians, with the least beside
//! them: on a machine that is busy with other things the least is the better guide.

use std::hint::black_box;
use std::time::{Duration, Instant};

use half::{bf16, f16};
use mlx_kernels_cpu::affine::{Problem, matmul_with};
use mlx_kernels_cpu::{Execution, FloatType, Floats, FloatsMut, Level};

/// Bytes of weights to rotate over.
const ROTATION: usize = 192 << 20;

struct Options {
    shapes: Vec<(usize, usize)>,
    rows: Vec<usize>,
    bits: Vec<usize>,
    group: usize,
    float_type: FloatType,
    execution: Execution,
    repeats: usize,
}

impl Options {
    fn parse() -> Result<Self, String> {
        let mut options = Self {
            shapes: vec![],
            rows: vec![1, 8, 32],
            bits: vec![4],
            group: 64,
            float_type: FloatType::Bf16,
            execution: Execution::default(),
            repeats: 15,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--shape" => options.shapes.push(shape(&value)?),
                "--rows" => options.rows = list(&value)?,
                "--bits" => options.bits = list(&value)?,
                "--group" => options.group = number(&value)?,
                "--repeats" => options.repeats = number(&value)?.max(1),
                "--threads" => {
                    let threads = number(&value)?.try_into();
                    options.execution.threads = threads.map_err(|_| "no threads".to_owned())?;
                }
                "--level" => {
                    let found = Level::ALL
                        .into_iter()
                        .find(|level| level.to_string() == value);
                    options.execution.level = found.ok_or_else(|| format!("no level {value}"))?;
                }
                "--type" => {
                    options.float_type = match value.as_str() {
                        "f32" => FloatType::F32,
                        "f16" => FloatType::F16,
                        "bf16" => FloatType::Bf16,
                        _ => return Err(format!("no type {value}")),
                    };
                }
                _ => return Err(format!("no option {name}")),
            }
        }
        if options.shapes.is_empty() {
            options.shapes.push((4096, 2560));
        }
        Ok(options)
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

fn list(text: &str) -> Result<Vec<usize>, String> {
    text.split(',').map(number).collect()
}

fn shape(text: &str) -> Result<(usize, usize), String> {
    let (n, k) = text
        .split_once('x')
        .ok_or_else(|| format!("{text} is not of the form NxK"))?;
    Ok((number(n)?, number(k)?))
}

/// Owned floats.
enum Elements {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Elements {
    fn new(float_type: FloatType, count: usize) -> Self {
        let values = (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 64.0);
        match float_type {
            FloatType::F32 => Self::F32(values.collect()),
            FloatType::F16 => Self::F16(values.map(f16::from_f32).collect()),
            FloatType::Bf16 => Self::Bf16(values.map(bf16::from_f32).collect()),
        }
    }

    fn borrow(&self) -> Floats<'_> {
        match self {
            Self::F32(values) => values[..].into(),
            Self::F16(values) => values[..].into(),
            Self::Bf16(values) => values[..].into(),
        }
    }

    fn borrow_mut(&mut self) -> FloatsMut<'_> {
        match self {
            Self::F32(values) => (&mut values[..]).into(),
            Self::F16(values) => (&mut values[..]).into(),
            Self::Bf16(values) => (&mut values[..]).into(),
        }
    }
}

/// One weight of the rotation.
struct Weight {
    words: Vec<u32>,
    scales: Elements,
    biases: Elements,
}

impl Weight {
    fn new(problem: &Problem, float_type: FloatType) -> Self {
        let groups = problem.n() * problem.groups_per_row();
        let words = problem.n() * problem.words_per_row();
        Self {
            words: (0..words as u32)
                .map(|i| i.wrapping_mul(2_654_435_761))
                .collect(),
            scales: Elements::new(float_type, groups),
            biases: Elements::new(float_type, groups),
        }
    }
}

/// What a weight takes in memory.
fn weight_bytes(problem: &Problem, float_type: FloatType) -> usize {
    let parameter = if float_type == FloatType::F32 { 4 } else { 2 };
    problem.n() * (problem.words_per_row() * 4 + problem.groups_per_row() * 2 * parameter)
}

/// Runs `body` on every thread at once and gives the time until all are done.
fn on_all(threads: usize, body: &(impl Fn(usize) + Sync)) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 1..threads {
            scope.spawn(move || body(thread));
        }
        body(0);
    });
    start.elapsed()
}

/// Bytes read a second.
fn read_bandwidth(buffer: &[u64], threads: usize) -> f64 {
    let part = buffer.len() / threads;
    let time = on_all(threads, &|thread| {
        let mut sums = [0_u64; 16];
        for block in buffer[thread * part..(thread + 1) * part]
            .as_chunks::<16>()
            .0
        {
            for (sum, value) in sums.iter_mut().zip(block) {
                *sum = sum.wrapping_add(*value);
            }
        }
        black_box(sums);
    });
    (part * threads * 8) as f64 / time.as_secs_f64()
}

/// Multiply-adds, counted as two operations each, a second.
fn multiply_add_peak(threads: usize) -> f64 {
    const TIMES: usize = 200_000;
    let operations = |width| (threads * TIMES * 12 * width * 2) as f64;
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature is there.
        let time = on_all(threads, &|_| unsafe { multiply_add_avx512(TIMES) });
        return operations(16) / time.as_secs_f64();
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("fma") {
        // SAFETY: the feature is there.
        let time = on_all(threads, &|_| unsafe { multiply_add_fma(TIMES) });
        return operations(8) / time.as_secs_f64();
    }
    let time = on_all(threads, &|_| multiply_add::<4>(TIMES));
    operations(4) / time.as_secs_f64()
}

/// # Safety
///
/// The machine has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,fma")]
unsafe fn multiply_add_avx512(times: usize) {
    multiply_add::<16>(times);
}

/// # Safety
///
/// The machine has FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn multiply_add_fma(times: usize) {
    multiply_add::<8>(times);
}

/// Twelve independent chains of `WIDTH` lanes.
#[inline(always)]
#[allow(
    clippy::inline_always,
    reason = "it takes on the caller's instructions"
)]
fn multiply_add<const WIDTH: usize>(times: usize) {
    let factor = black_box([0.5_f32; WIDTH]);
    let mut chains = [[1.0_f32; WIDTH]; 12];
    for _ in 0..times {
        for chain in &mut chains {
            for (value, factor) in chain.iter_mut().zip(&factor) {
                *value = value.mul_add(*factor, *factor);
            }
        }
    }
    black_box(chains);
}

/// The middle and the least of some times, in seconds.
fn middle_and_least(times: &mut [f64]) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[0])
}

/// Times every row count on one shape and width, and prints a line for each.
fn measure(options: &Options, shape: (usize, usize), bits: usize, buffer: &[u64]) {
    let (n, k) = shape;
    let problem = |rows| {
        Problem::new(rows, n, k, bits, options.group).unwrap_or_else(|error| {
            eprintln!("{error}");
            std::process::exit(2);
        })
    };
    let float_type = options.float_type;
    let bytes = weight_bytes(&problem(1), float_type);
    let weights: Vec<_> = (0..ROTATION.div_ceil(bytes))
        .map(|_| Weight::new(&problem(1), float_type))
        .collect();
    let mut turn = 0;
    let mut times = vec![vec![]; options.rows.len()];
    let (mut bandwidths, mut peaks) = (vec![], vec![]);
    let threads = options.execution.threads.get();
    for repeat in 0..=options.repeats {
        bandwidths.push(1.0 / read_bandwidth(buffer, threads));
        peaks.push(1.0 / multiply_add_peak(threads));
        for (times, &rows) in times.iter_mut().zip(&options.rows) {
            let x = Elements::new(float_type, rows * k);
            let mut y = Elements::new(float_type, rows * n);
            let weight = &weights[turn % weights.len()];
            turn += 1;
            let (scales, biases) = (weight.scales.borrow(), weight.biases.borrow());
            let problem = problem(rows);
            let start = Instant::now();
            let (x, y) = (x.borrow(), y.borrow_mut());
            matmul_with(
                options.execution,
                &problem,
                x,
                &weight.words,
                scales,
                biases,
                y,
            )
            .expect("arrays that fit the problem");
            if repeat > 0 {
                times.push(start.elapsed().as_secs_f64());
            }
        }
    }
    let (bandwidth, bandwidth_best) = middle_and_least(&mut bandwidths);
    let (peak, peak_best) = middle_and_least(&mut peaks);
    println!(
        "{n} x {k}, {bits} bits, group {}, {float_type}, {}, {threads} threads: \
         reads {:.1} GB/s (best {:.1}), multiply-adds {:.0} GFLOP/s (best {:.0})",
        options.group,
        options.execution.level,
        1e-9 / bandwidth,
        1e-9 / bandwidth_best,
        1e-9 / peak,
        1e-9 / peak_best,
    );
    println!("  rows    median ms    least ms    GB/s of weight    of reads    GFLOP/s    of peak");
    for (times, &rows) in times.iter_mut().zip(&options.rows) {
        let (median, least) = middle_and_least(times);
        let (rate, flops) = (bytes as f64 / least, (2 * rows * n * k) as f64 / least);
        println!(
            "{rows:>6} {:>12.3} {:>11.3} {:>17.1} {:>10.0}% {:>10.0} {:>9.0}%",
            median * 1e3,
            least * 1e3,
            rate / 1e9,
            rate * bandwidth_best * 100.0,
            flops / 1e9,
            flops * peak_best * 100.0,
        );
    }
}

fn main() {
    let options = Options::parse().unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2);
    });
    let buffer = vec![1_u64; (128 << 20) / 8];
    for &shape in &options.shapes {
        for &bits in &options.bits {
            measure(&options, shape, bits, &buffer);
        }
    }
}
