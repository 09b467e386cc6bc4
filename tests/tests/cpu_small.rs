//! The golden cases of the small kernels, on the CPU.

use half::{bf16, f16};
use integration_tests::golden::{self, Tensor};
use mlx_kernels_cpu::norm::add_rms_norm;
use mlx_kernels_cpu::sampling::{apply_token_bitmask, normalized_argmax};
use mlx_kernels_cpu::{Floats, FloatsMut};
use safetensors::Dtype;

/// A float tensor's elements, owned.
#[derive(Clone)]
enum Elements {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Elements {
    fn of(tensor: &Tensor) -> Self {
        match tensor.dtype {
            Dtype::F32 => Self::F32(tensor.f32()),
            Dtype::F16 => Self::F16(tensor.f16()),
            _ => Self::Bf16(tensor.bf16()),
        }
    }

    /// `values` rounded to the type of `like`.
    fn rounded(values: &[f64], like: &Tensor) -> Self {
        match like.dtype {
            Dtype::F32 => Self::F32(values.iter().map(|&value| value as f32).collect()),
            Dtype::F16 => Self::F16(values.iter().map(|&value| f16::from_f64(value)).collect()),
            _ => Self::Bf16(values.iter().map(|&value| bf16::from_f64(value)).collect()),
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

    fn wide(&self) -> Vec<f32> {
        match self {
            Self::F32(values) => values.clone(),
            Self::F16(values) => values.iter().map(|value| value.to_f32()).collect(),
            Self::Bf16(values) => values.iter().map(|value| value.to_f32()).collect(),
        }
    }
}

/// Equal as numbers, or both not numbers.
fn same(a: f32, b: f32) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

#[test]
fn residual_rms_norm() {
    for case in golden::load("residual_rms_norm") {
        let [x, update, weight] =
            ["x", "update", "weight"].map(|name| Elements::of(case.tensor(name)));
        let (mut residual, mut normalized) = (x.clone(), x.clone());
        add_rms_norm(
            x.borrow(),
            update.borrow(),
            weight.borrow(),
            case.float("eps") as f32,
            residual.borrow_mut(),
            normalized.borrow_mut(),
        )
        .expect("arrays that fit");
        let expected = case.tensor("residual").to_f32();
        for (i, (&got, &expected)) in residual.wide().iter().zip(&expected).enumerate() {
            assert!(
                same(got, expected),
                "{}: residual {i}: {got}, not {expected}",
                case.name
            );
        }
        let (expected, tolerance) = (case.tensor("normalized").to_f32(), case.tensor("tol").f32());
        for (i, &got) in normalized.wide().iter().enumerate() {
            let (expected, tolerance) = (expected[i], tolerance[i]);
            assert!(
                same(got, expected) || (got - expected).abs() <= tolerance,
                "{}: normalized {i}: {got} is not within {tolerance} of {expected}",
                case.name,
            );
        }
    }
}

#[test]
fn normalized_argmax_ids() {
    for case in golden::load("normalized_argmax") {
        let tensor = case.tensor("logits");
        let logits = tensor.to_f32();
        let expected = case.tensor("ids").u32();
        let sums: Vec<f64> = logits
            .chunks_exact(logits.len() / expected.len())
            .map(logsumexp)
            .collect();
        let sums = Elements::rounded(&sums, tensor);
        let mut ids = vec![u32::MAX; expected.len()];
        normalized_argmax(Elements::of(tensor).borrow(), sums.borrow(), &mut ids)
            .expect("arrays that fit");
        assert_eq!(ids, expected, "{}", case.name);
    }
}

/// `log(sum(exp(logits)))`.
fn logsumexp(logits: &[f32]) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let largest = f64::from(largest);
    let sum: f64 = logits
        .iter()
        .map(|&logit| (f64::from(logit) - largest).exp())
        .sum();
    largest + sum.ln()
}

#[test]
fn token_bitmask() {
    for case in golden::load("token_bitmask") {
        let tensor = case.tensor("logits");
        let vocabulary = *tensor.shape.last().expect("at least one axis");
        let mask = case.tensor("mask").u32();
        let expected = case.tensor("masked").to_f32();
        let words = vocabulary.div_ceil(32);
        let logits = Elements::of(tensor)
            .wide()
            .into_iter()
            .map(f64::from)
            .collect::<Vec<_>>();
        // The file has a mask for each row, the kernel one for all.
        for (row, mask) in mask.chunks_exact(words).enumerate() {
            let row = row * vocabulary..(row + 1) * vocabulary;
            let logits = Elements::rounded(&logits[row.clone()], tensor);
            let mut masked = logits.clone();
            apply_token_bitmask(logits.borrow(), vocabulary, mask, masked.borrow_mut())
                .expect("arrays that fit");
            for (i, (&got, &expected)) in masked.wide().iter().zip(&expected[row]).enumerate() {
                assert!(
                    same(got, expected),
                    "{}: {i}: {got}, not {expected}",
                    case.name
                );
            }
        }
    }
}
