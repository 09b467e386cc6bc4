//! Problems with random but reproducible contents.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use half::{bf16, f16};
use mlx_kernels_cpu::affine::{Problem, matmul_with};
use mlx_kernels_cpu::{Execution, FloatType, Floats, FloatsMut, Level};

/// A small generator: a multiplicative congruence, high bits used.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    pub fn word(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963);
        (self.0 >> 32) as u32
    }

    /// Uniform in -1 to 1.
    pub fn unit(&mut self) -> f32 {
        self.word() as f32 / 2.0_f32.powi(31) - 1.0
    }
}

/// Owned floats of one of the three types.
#[derive(Debug, Clone)]
pub enum Elements {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Elements {
    /// `values`, each rounded to `float_type`.
    pub fn rounded(float_type: FloatType, values: &[f32]) -> Self {
        match float_type {
            FloatType::F32 => Self::F32(values.to_vec()),
            FloatType::F16 => Self::F16(values.iter().map(|&value| f16::from_f32(value)).collect()),
            FloatType::Bf16 => {
                Self::Bf16(values.iter().map(|&value| bf16::from_f32(value)).collect())
            }
        }
    }

    pub fn borrow(&self) -> Floats<'_> {
        match self {
            Self::F32(values) => values[..].into(),
            Self::F16(values) => values[..].into(),
            Self::Bf16(values) => values[..].into(),
        }
    }

    pub fn borrow_mut(&mut self) -> FloatsMut<'_> {
        match self {
            Self::F32(values) => (&mut values[..]).into(),
            Self::F16(values) => (&mut values[..]).into(),
            Self::Bf16(values) => (&mut values[..]).into(),
        }
    }

    /// The elements widened.
    pub fn wide(&self) -> Vec<f32> {
        match self {
            Self::F32(values) => values.clone(),
            Self::F16(values) => values.iter().map(|value| value.to_f32()).collect(),
            Self::Bf16(values) => values.iter().map(|value| value.to_f32()).collect(),
        }
    }
}

/// A weight with scales and biases of about 1 / 100.
#[derive(Debug, Clone)]
pub struct Weight {
    pub words: Vec<u32>,
    pub scales: Elements,
    pub biases: Elements,
}

impl Weight {
    pub fn random(problem: &Problem, float_type: FloatType, random: &mut Random) -> Self {
        let words = (0..problem.n() * problem.words_per_row())
            .map(|_| random.word())
            .collect();
        let groups = problem.n() * problem.groups_per_row();
        let mut parameters = || -> Vec<f32> { (0..groups).map(|_| random.unit() / 64.0).collect() };
        Self {
            words,
            scales: Elements::rounded(float_type, &parameters()),
            biases: Elements::rounded(float_type, &parameters()),
        }
    }
}

/// The product in `f32`, with any execution.
pub fn product(
    execution: Execution,
    problem: &Problem,
    x: Floats<'_>,
    weight: &Weight,
) -> Vec<f32> {
    let mut y = vec![f32::NAN; problem.rows() * problem.n()];
    let (scales, biases) = (weight.scales.borrow(), weight.biases.borrow());
    matmul_with(
        execution,
        problem,
        x,
        &weight.words,
        scales,
        biases,
        (&mut y[..]).into(),
    )
    .expect("arrays that fit the problem");
    y
}

/// Execution at `level` with `threads` threads.
pub fn execution(level: Level, threads: usize) -> Execution {
    Execution {
        level,
        threads: threads.try_into().expect("at least one thread"),
    }
}

/// The numbers' bits, to compare them exactly, NaN and zero's sign included.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
