//! A product as data, its float64 result with error bounds, and its run by a plan.

use mlx_kernels::affine::{self, Plan};
use mlx_kernels_cpu::reference;
use mlx_rs::{Array, Dtype};

use super::super::Failure;
use super::super::floats::{self, round, smallest_subnormal, unit_roundoff};
use super::super::random::Random;

/// Extents, format and element types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows of x.
    pub rows: i32,
    /// Outputs a row.
    pub n: i32,
    /// Inner width.
    pub k: i32,
    /// Bits a code.
    pub bits: i32,
    /// Codes that share scale and bias.
    pub group: i32,
    /// Element type of x.
    pub x_dtype: Dtype,
    /// Element type of scales and biases.
    pub scale_dtype: Dtype,
}

impl Shape {
    /// The type of the result: what the operands promote to.
    pub fn result_dtype(&self) -> Dtype {
        Dtype::from_promoting_types(self.x_dtype, self.scale_dtype)
    }

    /// The largest code.
    pub fn top(&self) -> u32 {
        (1 << self.bits) - 1
    }

    /// Codes of the weight.
    pub fn weights(&self) -> usize {
        self.n as usize * self.k as usize
    }

    /// Scales of the weight.
    pub fn groups(&self) -> usize {
        self.weights() / self.group as usize
    }
}

/// A product. Values are exact in their element types.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Extents, format and element types.
    pub shape: Shape,
    /// `[rows, k]`.
    pub x: Vec<f32>,
    /// `[n, k]`.
    pub codes: Vec<u32>,
    /// `[n, k / group]`.
    pub scales: Vec<f32>,
    /// `[n, k / group]`.
    pub biases: Vec<f32>,
}

/// The operands of a product as arrays.
#[derive(Debug, Clone)]
pub struct Operands {
    /// Activations.
    pub x: Array,
    /// Packed codes.
    pub w: Array,
    /// Scales.
    pub scales: Array,
    /// Biases.
    pub biases: Array,
}

impl Problem {
    /// Normally distributed x; uniform codes under scales of both signs, so that weights deviate by
    /// about 0.02 from a mean near zero.
    pub fn random(shape: Shape) -> Self {
        let mut random = Random::new(seed(&shape));
        let levels = (shape.top() + 1) as f32;
        let codes = (0..shape.weights())
            .map(|_| random.below(shape.top() + 1))
            .collect();
        let (mut scales, mut biases) = (Vec::new(), Vec::new());
        for _ in 0..shape.groups() {
            let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
            let scale = sign * 0.07 * (0.5 + random.unit()) / levels;
            scales.push(round(scale, shape.scale_dtype));
            let middle = 0.4 + 0.2 * random.unit();
            biases.push(round(-scale * levels * middle, shape.scale_dtype));
        }
        let x = random.normals(shape.rows as usize * shape.k as usize);
        Self::new(shape, x, codes, scales, biases)
    }

    /// Normally distributed x and weights, the weights (deviation 0.02) quantized as MLX does.
    pub fn gaussian(shape: Shape) -> Self {
        let mut random = Random::new(seed(&shape));
        let weights: Vec<f32> = random
            .normals(shape.weights())
            .into_iter()
            .map(|value| value * 0.02)
            .collect();
        let quantized =
            reference::affine::quantize(&weights, shape.bits as usize, shape.group as usize);
        let narrow = |values: Vec<f32>| {
            let values = values.into_iter();
            values
                .map(|value| round(value, shape.scale_dtype))
                .collect()
        };
        let x = random.normals(shape.rows as usize * shape.k as usize);
        let (scales, biases) = (narrow(quantized.scales), narrow(quantized.biases));
        Self::new(shape, x, quantized.codes, scales, biases)
    }

    fn new(shape: Shape, x: Vec<f32>, codes: Vec<u32>, scales: Vec<f32>, biases: Vec<f32>) -> Self {
        let x = x.into_iter().map(|v| round(v, shape.x_dtype)).collect();
        Self {
            shape,
            x,
            codes,
            scales,
            biases,
        }
    }

    /// The same weights with another x, of any number of rows.
    pub fn with_x(&self, x: Vec<f32>) -> Self {
        let rows = (x.len() / self.shape.k as usize) as i32;
        let x = x
            .into_iter()
            .map(|v| round(v, self.shape.x_dtype))
            .collect();
        Self {
            shape: Shape { rows, ..self.shape },
            x,
            ..self.clone()
        }
    }

    /// Row `index` of x.
    pub fn row(&self, index: usize) -> &[f32] {
        let k = self.shape.k as usize;
        &self.x[index * k..(index + 1) * k]
    }

    /// The first `rows` rows.
    pub fn first_rows(&self, rows: i32) -> Self {
        self.with_x(self.x[..(rows * self.shape.k) as usize].to_vec())
    }

    /// The operands as arrays.
    pub fn operands(&self) -> Operands {
        let Shape {
            rows,
            n,
            k,
            bits,
            group,
            ..
        } = self.shape;
        // Rows of codes are whole words, so the whole weight is one stream.
        let words = reference::affine::pack(&self.codes, bits as usize);
        let groups = [n, k / group];
        Operands {
            x: floats::array(&self.x, &[rows, k], self.shape.x_dtype),
            w: Array::from_slice(&words, &[n, k / 32 * bits]),
            scales: floats::array(&self.scales, &groups, self.shape.scale_dtype),
            biases: floats::array(&self.biases, &groups, self.shape.scale_dtype),
        }
    }

    /// The product by `plan`.
    ///
    ///
    /// When the kernel fails, or gives another shape or type than it must.
    pub fn run(&self, plan: Plan) -> Result<Vec<f32>, Failure> {
        self.run_on(plan, &self.operands())
    }

    /// The product of these operands, which hold this problem's values, by `plan`.
    ///
    ///
    /// As [`run`](Self::run).
    pub fn run_on(&self, plan: Plan, operands: &Operands) -> Result<Vec<f32>, Failure> {
        let Operands {
            x,
            w,
            scales,
            biases,
        } = operands;
        let Shape { group, bits, .. } = self.shape;
        let y = affine::quantized_matmul_by(plan, x, w, scales, biases, group, bits)?;
        self.values(&y)
    }

    /// The elements of a result, whose shape and type must be this problem's.
    ///
    ///
    /// As [`run`](Self::run).
    pub fn values(&self, y: &Array) -> Result<Vec<f32>, Failure> {
        let (shape, dtype) = ([self.shape.rows, self.shape.n], self.shape.result_dtype());
        if y.shape() != shape || y.dtype() != dtype {
            return Err(Failure::Kind {
                found: format!("{:?} of {:?}", y.shape(), y.dtype()),
                expected: format!("{shape:?} of {dtype:?}"),
            });
        }
        floats::values(y)
    }

    /// The float64 result and each element's error bound under `plan`.
    ///
    /// The bound allows one rounding to the result's type, and for the float32 sum
    /// `(16 + sqrt(K)) 2^-24` of the magnitudes that the kernel adds up.
    pub fn reference(&self, plan: Plan) -> (Vec<f64>, Vec<f64>) {
        let k = self.shape.k as usize;
        let (weights, magnitudes) = self.weights(plan);
        let order = (16.0 + (k as f64).sqrt()) * (-24_f64).exp2();
        let dtype = self.shape.result_dtype();
        let (unit, floor) = (unit_roundoff(dtype), smallest_subnormal(dtype));
        let (mut expected, mut bounds) = (Vec::new(), Vec::new());
        for x in self.x.chunks_exact(k) {
            for (w, m) in weights.chunks_exact(k).zip(magnitudes.chunks_exact(k)) {
                let (mut sum, mut size) = (0.0, 0.0);
                for ((&x, w), m) in x.iter().zip(w).zip(m) {
                    sum += f64::from(x) * w;
                    size += f64::from(x).abs() * m;
                }
                expected.push(sum);
                bounds.push(unit * sum.abs() + order * size + floor);
            }
        }
        (expected, bounds)
    }

    /// Each weight in float64, and the magnitude that stands for it in `plan`'s sums.
    fn weights(&self, plan: Plan) -> (Vec<f64>, Vec<f64>) {
        let levels = f64::from(self.shape.top() + 1);
        let group = self.shape.group as usize;
        let each = |(at, &code): (usize, &u32)| {
            let (scale, bias) = (self.scales[at / group], self.biases[at / group]);
            let (q, scale, bias) = (f64::from(code), f64::from(scale), f64::from(bias));
            let weight = scale * q + bias;
            let magnitude = match plan {
                // No weight is formed: codes and activations are summed by themselves.
                Plan::Rows | Plan::Tensor => scale.abs() * q + bias.abs(),
                // The weight is formed from the code's fraction and a shifted bias.
                Plan::SplitMma { .. } => weight.abs() + (bias - levels * scale).abs(),
                _ => weight.abs(),
            };
            (weight, magnitude)
        };
        self.codes.iter().enumerate().map(each).unzip()
    }
}

/// Other numbers for every shape, the same ones in every run.
fn seed(shape: &Shape) -> u64 {
    let parts = [shape.rows, shape.n, shape.k, shape.bits, shape.group];
    parts.into_iter().fold(1, |seed: u64, part| {
        seed.wrapping_mul(10_007)
            .wrapping_add(u64::from(part.unsigned_abs()))
    })
}
