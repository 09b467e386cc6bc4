//! The golden affine cases, through the CPU kernels at every level that this machine has, and
//! through their `f64` reference.

use half::{bf16, f16};
use integration_tests::golden::{self, Case, Tensor};
use mlx_kernels_cpu::affine::{Problem, matmul_with};
use mlx_kernels_cpu::{Execution, Floats, FloatsMut, Level, reference};
use safetensors::Dtype;

const WIDTHS: [usize; 6] = [2, 3, 4, 5, 6, 8];

/// A float tensor's elements, owned.
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

    /// As many zeros of the tensor's type.
    fn zeros(like: Dtype, count: usize) -> Self {
        match like {
            Dtype::F32 => Self::F32(vec![0.0; count]),
            Dtype::F16 => Self::F16(vec![f16::ZERO; count]),
            _ => Self::Bf16(vec![bf16::ZERO; count]),
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

    fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::F32(values) => values.iter().map(|&value| f64::from(value)).collect(),
            Self::F16(values) => values.iter().map(|value| value.to_f64()).collect(),
            Self::Bf16(values) => values.iter().map(|value| value.to_f64()).collect(),
        }
    }
}

fn problem(case: &Case) -> Problem {
    let int = |name| case.int(name);
    Problem::new(int("m"), int("n"), int("k"), int("bits"), int("group")).expect("a valid problem")
}

#[test]
fn products_are_within_tolerance_at_every_level() {
    for bits in WIDTHS {
        for case in golden::load(&format!("affine_matmul_b{bits}")) {
            let problem = problem(&case);
            let [x, scales, biases] =
                ["x", "scales", "biases"].map(|name| Elements::of(case.tensor(name)));
            let words = case.tensor("w_q").u32();
            let (expected, tolerance) = (case.tensor("expected").f32(), case.tensor("tol").f32());
            for level in Level::available() {
                let mut y = Elements::zeros(case.tensor("x").dtype, expected.len());
                let execution = Execution {
                    level,
                    ..Execution::default()
                };
                let (x, scales, biases) = (x.borrow(), scales.borrow(), biases.borrow());
                matmul_with(
                    execution,
                    &problem,
                    x,
                    &words,
                    scales,
                    biases,
                    y.borrow_mut(),
                )
                .expect("arrays that fit the problem");
                for (i, y) in y.to_f64().into_iter().enumerate() {
                    let (expected, tolerance) = (f64::from(expected[i]), f64::from(tolerance[i]));
                    assert!(
                        (y - expected).abs() <= tolerance,
                        "{level}, {}, element {i}: {y} is not within {tolerance} of {expected}",
                        case.name,
                    );
                }
            }
        }
    }
}

#[test]
fn the_reference_gives_the_expected_products() {
    for bits in WIDTHS {
        for case in golden::load(&format!("affine_matmul_b{bits}")) {
            let [x, scales, biases] =
                ["x", "scales", "biases"].map(|name| Elements::of(case.tensor(name)));
            let words = case.tensor("w_q").u32();
            let product = reference::affine::matmul(
                &problem(&case),
                x.borrow(),
                &words,
                scales.borrow(),
                biases.borrow(),
            );
            for (value, expected) in product.values.iter().zip(case.tensor("expected").f32()) {
                // The file holds the same number rounded to `f32`; near zero, sums in another order
                // leave a few units of the largest term.
                let rounding = f64::from(expected).abs() * 2.0_f64.powi(-24);
                assert!(
                    (value - f64::from(expected)).abs() <= rounding + 1e-12,
                    "{}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn quantization_is_exact() {
    let cases = golden::load("affine_quantize");
    for case in &cases {
        let (bits, group) = (case.int("bits"), case.int("group"));
        let w = case.tensor("w");
        let quantized = reference::affine::quantize(&w.to_f32(), bits, group);
        let words = reference::affine::pack(&quantized.codes, bits);
        assert_eq!(words, case.tensor("w_q").u32(), "{}: codes", case.name);
        let stored = |values: &[f32]| match w.dtype {
            Dtype::F32 => values.to_vec(),
            Dtype::F16 => values
                .iter()
                .map(|&value| f16::from_f32(value).to_f32())
                .collect(),
            _ => values
                .iter()
                .map(|&value| bf16::from_f32(value).to_f32())
                .collect(),
        };
        let scales = stored(&quantized.scales);
        assert_eq!(
            scales,
            case.tensor("scales").to_f32(),
            "{}: scales",
            case.name
        );
        let biases = stored(&quantized.biases);
        assert_eq!(
            biases,
            case.tensor("biases").to_f32(),
            "{}: biases",
            case.name
        );
    }
}
