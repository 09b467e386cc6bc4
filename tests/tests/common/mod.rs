//! MLX arrays for tests: golden tensors, random data and the back ends of this machine.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod prefill;
pub mod sums;
pub mod swiglu;
pub mod trellis;

use std::sync::Arc;

use half::{bf16, f16};
use integration_tests::golden::Tensor;
use mlx_kernels::{Backend, Context, PlanOptions, with_context};
use mlx_rs::{Array, Dtype};
use safetensors::Dtype as StoredDtype;

/// The three float types that every operation takes.
pub const FLOATS: [Dtype; 3] = [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16];

/// The back ends that this machine can run.
pub fn backends() -> Vec<Backend> {
    Backend::ALL
        .into_iter()
        .filter(|backend| backend.is_available())
        .collect()
}

/// Runs `scope` under `backend`.
pub fn on<R>(backend: Backend, scope: impl FnOnce() -> R) -> R {
    with_context(&Arc::new(Context::new(backend).unwrap()), scope)
}

/// Runs `scope` under `backend` with batch-invariant plans.
pub fn on_invariant<R>(backend: Backend, scope: impl FnOnce() -> R) -> R {
    let options = PlanOptions {
        batch_invariant: true,
        ..PlanOptions::default()
    };
    with_context(
        &Arc::new(Context::new(backend).unwrap().with_options(options)),
        scope,
    )
}

/// A golden tensor as an MLX array.
pub fn array(tensor: &Tensor) -> Array {
    let shape: Vec<i32> = tensor.shape.iter().map(|&size| size as i32).collect();
    match tensor.dtype {
        StoredDtype::F32 => Array::from_slice(&tensor.f32(), &shape),
        StoredDtype::F16 => Array::from_slice(&tensor.f16(), &shape),
        StoredDtype::BF16 => Array::from_slice(&tensor.bf16(), &shape),
        StoredDtype::U32 => Array::from_slice(&tensor.u32(), &shape),
        other => panic!("no MLX array of {other:?}"),
    }
}

/// An array of `dtype` holding these values, rounded.
pub fn floats(values: &[f32], shape: &[i32], dtype: Dtype) -> Array {
    match dtype {
        Dtype::Float16 => {
            let values: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
            Array::from_slice(&values, shape)
        }
        Dtype::Bfloat16 => {
            let values: Vec<bf16> = values.iter().map(|&value| bf16::from_f32(value)).collect();
            Array::from_slice(&values, shape)
        }
        _ => Array::from_slice(values, shape),
    }
}

/// The elements in row-major order, widened.
pub fn values(array: &Array) -> Vec<f32> {
    if array.size() == 0 {
        return Vec::new();
    }
    let flat = array.reshape(&[-1]).unwrap();
    // A node of a GPU has no strides to ask for before it is evaluated.
    flat.eval().unwrap();
    flat.to_vec_cast::<f32>().unwrap()
}

/// The elements' bits, to compare without regard to NaN.
pub fn bits(array: &Array) -> Vec<u32> {
    values(array).into_iter().map(f32::to_bits).collect()
}

/// Reproducible numbers: a 64-bit LCG's upper bits.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn word(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// Uniform in [-1, 1).
    pub fn float(&mut self) -> f32 {
        self.word() as f32 / 2_147_483_648.0 - 1.0
    }

    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }

    /// Normally distributed: the sum of twelve uniform numbers has unit variance.
    pub fn normals(&mut self, count: usize, deviation: f32) -> Vec<f32> {
        let mut normal = || (0..12).map(|_| self.float()).sum::<f32>() / 2.0;
        (0..count).map(|_| normal() * deviation).collect()
    }

    pub fn words(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.word()).collect()
    }
}

/// The unit roundoff of a float type.
pub fn unit(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float16 => 2.0_f64.powi(-11),
        Dtype::Bfloat16 => 2.0_f64.powi(-8),
        _ => 2.0_f64.powi(-24),
    }
}
