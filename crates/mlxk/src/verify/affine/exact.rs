//! Products whose result is known exactly, whatever the order of the sum.
//!
//! Scales, biases and activations are small multiples of powers of two, so that every weight and
//! every partial sum of every kernel is exact in float32. Only the rounding to the result's type
//! remains.

use mlx_kernels::affine::Plan;
use mlx_rs::Dtype;

use super::super::floats::round;
use super::super::random::Random;
use super::super::{Failure, Findings, same_bits};
use super::problem::{Problem, Shape};

/// What scales and biases are multiples of.
const STEP: f32 = 1.0 / 64.0;
/// The most steps of a scale or bias, and the largest activation.
const MOST_STEPS: i32 = 31;
const MOST_X: i32 = 4;

/// x with a single 1: the result is a column of weights. Every position of K in turn shows the
/// order of bits, codes that straddle words, the indexing of groups, and the map of lanes.
pub fn one_hot(plan: Plan, shape: Shape) -> Result<Findings, Failure> {
    let weights = on_grid(shape);
    let (rows, k) = (shape.rows as usize, shape.k as usize);
    let mut findings = Findings::default();
    for first in (0..k).step_by(rows) {
        let positions: Vec<usize> = (first..first + rows).map(|position| position % k).collect();
        let mut x = vec![0.0; rows * k];
        for (row, position) in positions.iter().enumerate() {
            x[row * k + position] = 1.0;
        }
        findings = findings.and(expect("a single weight", &weights.with_x(x), plan)?);
    }
    Ok(findings)
}

/// Integer x against integer weights: scale 1 without bias, and scale -1 that counts down.
pub fn integers(plan: Plan, shape: Shape) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    for (scale, bias) in [(1.0, 0.0), (-1.0, shape.top() as f32)] {
        let mut problem = on_grid(shape);
        problem.scales.fill(scale);
        problem.biases.fill(bias);
        findings = findings.and(expect("integers", &with_integers(&problem), plan)?);
    }
    Ok(findings)
}

/// The difference of two weights that lie closer together than the result's type can tell near 1:
/// a kernel that rounds weights to that type loses it.
pub fn narrow_steps(plan: Plan, shape: Shape) -> Result<Findings, Failure> {
    let step = match shape.result_dtype() {
        Dtype::Float16 => (-13_f32).exp2(),
        Dtype::Bfloat16 => (-10_f32).exp2(),
        _ => (-14_f32).exp2(),
    };
    let mut problem = on_grid(shape);
    problem.scales.fill(step);
    problem.biases.fill(1.0);
    let k = shape.k as usize;
    let mut random = Random::new(4);
    let mut x = vec![0.0; shape.rows as usize * k];
    for row in x.chunks_exact_mut(k) {
        let plus = random.below(k as u32) as usize;
        let minus = (plus + 1 + random.below(k as u32 - 1) as usize) % k;
        (row[plus], row[minus]) = (1.0, -1.0);
    }
    expect("weights in float32", &problem.with_x(x), plan)
}

/// Zero activations, and codes that are all zero or all ones.
pub fn extremes(plan: Plan, shape: Shape) -> Result<Findings, Failure> {
    let mut problem = Problem::random(shape);
    problem.x.fill(0.0);
    let zeros = vec![0.0; (shape.rows * shape.n) as usize];
    let mut findings = same_bits("zero activations", &unsigned(problem.run(plan)?), &zeros)?;
    for code in [0, shape.top()] {
        let mut problem = on_grid(shape);
        problem.codes.fill(code);
        findings = findings.and(expect("equal codes", &with_integers(&problem), plan)?);
    }
    Ok(findings)
}

/// Random codes; scales and biases that are small multiples of [`STEP`].
fn on_grid(shape: Shape) -> Problem {
    let mut problem = Problem::random(shape);
    let mut random = Random::new(u64::from(shape.top()));
    for (scale, bias) in problem.scales.iter_mut().zip(&mut problem.biases) {
        let steps = 1 + random.below(MOST_STEPS.unsigned_abs()) as i32;
        let sign = if random.below(2) == 0 { 1 } else { -1 };
        *scale = (sign * steps) as f32 * STEP;
        *bias = random.within(MOST_STEPS) as f32 * STEP;
    }
    problem
}

fn with_integers(problem: &Problem) -> Problem {
    let mut random = Random::new(3);
    let count = problem.x.len();
    let x = (0..count).map(|_| random.within(MOST_X) as f32).collect();
    problem.with_x(x)
}

/// Runs the product and compares it with its exact value.
fn expect(contract: &'static str, problem: &Problem, plan: Plan) -> Result<Findings, Failure> {
    let dtype = problem.shape.result_dtype();
    // Exact in float64, and in float32 too: the only rounding is to the result's type.
    let (exact, _) = problem.reference(plan);
    let expected: Vec<f32> = exact.iter().map(|&sum| round(sum as f32, dtype)).collect();
    same_bits(contract, &unsigned(problem.run(plan)?), &unsigned(expected))
}

/// Minus zero as zero: which of them a sum of zeros gives depends on its order.
fn unsigned(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().map(|value| value + 0.0).collect()
}
