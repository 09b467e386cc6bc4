//! Activations and rotating weights.

use mlx_kernels::affine::{self, Plan};
use mlx_rs::{Array, Dtype, ops, random};

use super::Case;

/// Weights rotate through at least this much memory: several times the last-level caches of CPUs
/// and of an H200 (60 MB).
const ROTATION_BYTES: u64 = 256 << 20;
/// The fewest sets, however large one is, and the most, however small: thousands of tiny arrays take
/// longer to make than to measure, and stay in a cache anyway.
const FEWEST_SETS: u64 = 2;
const MOST_SETS: u64 = 256;

fn sets(bytes: u64) -> u64 {
    ROTATION_BYTES
        .div_ceil(bytes.max(1))
        .clamp(FEWEST_SETS, MOST_SETS)
}

fn evaluated(array: Array) -> anyhow::Result<Array> {
    array.eval()?;
    Ok(array)
}

fn normal(shape: &[i32], scale: f32, dtype: Dtype) -> anyhow::Result<Array> {
    let values = random::normal::<f32>(shape, None, scale, None)?;
    evaluated(values.as_dtype(dtype)?)
}

/// `[rows, k]` activations, drawn from a normal distribution.
pub(super) fn activations(case: Case) -> anyhow::Result<Array> {
    normal(&[case.rows, case.shape.k], 1.0, case.dtype)
}

/// Random codes with random scales and biases, several sets.
pub(super) struct QuantizedSets {
    case: Case,
    sets: Vec<[Array; 3]>,
}

impl QuantizedSets {
    pub(super) fn new(case: Case) -> anyhow::Result<Self> {
        let Case {
            shape,
            bits,
            group_size,
            dtype,
            ..
        } = case;
        let words = shape.k / 32 * bits;
        let groups = [shape.n, shape.k / group_size];
        let set = |_| {
            let codes = random::randint::<_, u32>(0, i32::MAX, &[shape.n, words], None)?;
            Ok([
                evaluated(codes)?,
                normal(&groups, 0.01, dtype)?,
                normal(&groups, 0.1, dtype)?,
            ])
        };
        let sets = (0..sets(case.problem().weight_bytes())).map(set);
        Ok(Self {
            case,
            sets: sets.collect::<anyhow::Result<_>>()?,
        })
    }

    fn set(&self, turn: usize) -> &[Array; 3] {
        &self.sets[turn % self.sets.len()]
    }

    pub(super) fn stock(&self, x: &Array, turn: usize) -> anyhow::Result<Array> {
        let [w, scales, biases] = self.set(turn);
        let Case {
            group_size, bits, ..
        } = self.case;
        Ok(ops::quantized_matmul(
            x, w, scales, biases, true, group_size, bits,
        )?)
    }

    pub(super) fn by(&self, plan: Plan, x: &Array, turn: usize) -> anyhow::Result<Array> {
        let [w, scales, biases] = self.set(turn);
        let Case {
            group_size, bits, ..
        } = self.case;
        Ok(affine::quantized_matmul_by(
            plan, x, w, scales, biases, group_size, bits,
        )?)
    }
}

/// Weights in the activations' element type, several sets.
pub(super) struct DenseSets {
    sets: Vec<Array>,
}

impl DenseSets {
    pub(super) fn new(case: Case) -> anyhow::Result<Self> {
        let shape = [case.shape.n, case.shape.k];
        let set = |_| normal(&shape, 0.1, case.dtype);
        let sets = (0..sets(Self::bytes(case)))
            .map(set)
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { sets })
    }

    pub(super) fn bytes(case: Case) -> u64 {
        let size = if case.dtype == Dtype::Float32 { 4 } else { 2 };
        case.shape.n as u64 * case.shape.k as u64 * size
    }

    pub(super) fn product(&self, x: &Array, turn: usize) -> anyhow::Result<Array> {
        Ok(ops::matmul(x, self.sets[turn % self.sets.len()].t())?)
    }
}
