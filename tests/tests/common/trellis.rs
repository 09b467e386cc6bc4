//! Weights in trellis codes for tests: any words are valid codes.

use std::sync::Arc;

use half::f16;
use integration_tests::golden::Case;
use mlx_kernels::trellis::TrellisWeight;
use mlx_kernels::{Backend, Context, with_context};
use mlx_rs::ops::indexing::{IndexOp, IntoStrideBy};
use mlx_rs::{Array, Dtype, ops};
use trellis_codec::{Axis, Contract, Format, Geometry, Layout, ModuleEntry, decode, interleave};

use super::{FLOATS, Random, array, backends, floats, unit, values};

/// The back ends of this machine that run kernels.
pub fn kernel_backends() -> Vec<Backend> {
    let mut backends = backends();
    backends.retain(|&backend| backend != Backend::Cpu);
    backends
}

/// Runs `scope` under every back end that runs kernels.
pub fn on_kernels(scope: impl Fn(Backend)) {
    for backend in kernel_backends() {
        let context = Arc::new(Context::new(backend).unwrap());
        with_context(&context, || scope(backend));
    }
}

/// A weight as arrays and on the host.
pub struct Coded {
    pub weight: TrellisWeight,
    pub geometry: Geometry,
    pub codes: Vec<u32>,
    pub scales: Vec<f32>,
}

impl Coded {
    /// The geometry with these words, and scales of `dtype` (rounded to it).
    pub fn new(geometry: Geometry, codes: Vec<u32>, scales: &[f32], dtype: Dtype) -> Self {
        let shape: Vec<i32> = geometry.codes_shape().iter().map(|&d| d as i32).collect();
        let scales = floats(scales, &[scales.len() as i32], dtype);
        let weight = TrellisWeight::new(
            Array::from_slice(&codes, &shape),
            scales.clone(),
            &geometry.entry(),
        )
        .unwrap();
        assert_eq!(weight.geometry(), &geometry);
        let scales = values(&scales);
        Self {
            weight,
            geometry,
            codes,
            scales,
        }
    }

    /// Random words; float16 scales of both signs around 0.1.
    pub fn random(geometry: Geometry) -> Self {
        let rows = geometry.rows();
        let seed = (rows * 31 + geometry.cols()) as u64 + u64::from(geometry.format().bits());
        let mut random = Random::new(seed);
        let codes = random.words(geometry.words());
        let scales: Vec<f32> = (0..rows)
            .map(|_| f16::from_f32(random.float() * 0.1).to_f32())
            .collect();
        Self::new(geometry, codes, &scales, Dtype::Float16)
    }

    /// The same weight with its blocks in pairs.
    pub fn in_pairs(&self) -> Self {
        let (geometry, codes) = interleave(&self.geometry, &self.codes).unwrap();
        Self::new(geometry, codes, &self.scales, self.weight.scales().dtype())
    }

    /// The stored matrix, `[R, C]` row-major, under a contract.
    pub fn stored(&self, contract: Contract) -> Vec<f32> {
        decode(&self.geometry, &self.codes, &self.scales, contract).unwrap()
    }

    /// The weight, `[outputs, inputs]` row-major, under a contract.
    pub fn matrix(&self, contract: Contract) -> Vec<f32> {
        let stored = self.stored(contract);
        let (outputs, inputs) = self.features();
        match self.geometry.axis() {
            Axis::Input => stored,
            Axis::Output => (0..outputs * inputs)
                .map(|i| stored[i % inputs * outputs + i / inputs])
                .collect(),
        }
    }

    /// Output and input features.
    pub fn features(&self) -> (usize, usize) {
        (
            self.geometry.output_features(),
            self.geometry.input_features(),
        )
    }
}

/// A geometry of 12 state bits.
pub fn geometry(
    bits: u32,
    block: usize,
    axis: Axis,
    layout: Layout,
    [rows, cols]: [usize; 2],
) -> Geometry {
    Geometry::new(
        Format::new(bits, 12, block).unwrap(),
        axis,
        layout,
        rows,
        cols,
    )
    .unwrap()
}

/// The weight of a golden case whose tensors and parameters of one weight begin with `prefix`.
pub fn golden_weight(case: &Case, prefix: &str) -> TrellisWeight {
    let entry = ModuleEntry::new(
        Format::new(case.int(&format!("{prefix}k")) as u32, 12, 256).unwrap(),
        Axis::from_index(case.int("axis") as u32).unwrap(),
        match case.text(&format!("{prefix}layout")) {
            "interleaved" => Layout::BlockPairs,
            _ => Layout::Rows,
        },
    );
    let codes = array(case.tensor(&format!("{prefix}codes")));
    let scales = array(case.tensor(&format!("{prefix}scales")));
    TrellisWeight::new(codes, scales, &entry).unwrap()
}

/// Holds a result to the answer and the tolerances of a golden case.
pub fn assert_golden(y: &Array, case: &Case, context: &str) {
    assert_golden_within(y, case, "tol", context);
}

/// The same for products with weights that are rounded to x's type.
pub fn assert_golden_rounded(y: &Array, case: &Case, context: &str) {
    let is_rounded = y.dtype() != Dtype::Float32;
    let tolerances = if is_rounded { "tol_rounded" } else { "tol" };
    assert_golden_within(y, case, tolerances, context);
}

fn assert_golden_within(y: &Array, case: &Case, tolerances: &str, context: &str) {
    let (expected, tol) = (case.tensor("expected").f32(), case.tensor(tolerances).f32());
    let y = values(y);
    assert_eq!(y.len(), expected.len(), "{context} {}", case.name);
    for (i, ((y, want), tol)) in y.iter().zip(&expected).zip(&tol).enumerate() {
        let off = (y - want).abs();
        assert!(
            off <= *tol,
            "{context} {}: element {i} is off by {off}",
            case.name
        );
    }
}

/// `kernel` on at most `most` rows of `x` at a time, the results one after another.
pub fn by_rows(x: &Array, most: i32, kernel: impl Fn(&Array) -> Array) -> Array {
    let parts: Vec<Array> = (0..x.dim(0))
        .step_by(most as usize)
        .map(|row| kernel(&x.index(row..(row + most).min(x.dim(0)))))
        .collect();
    ops::concatenate(&parts, 0).unwrap()
}

/// The activations that equalities are shown on: `((73 i + 19) mod 257 - 128) / 31`, rounded to
/// `dtype`.
pub fn activations(rows: usize, inputs: usize, dtype: Dtype) -> Array {
    let values: Vec<f32> = (0..rows * inputs)
        .map(|i| ((73 * i + 19) % 257) as f32)
        .map(|step| (step - 128.0) / 31.0)
        .collect();
    floats(&values, &[rows as i32, inputs as i32], dtype)
}

/// Holds `y`, `[M, outputs]`, to the float64 product of `x` with the weights decoded by `contract`,
/// within what float32 sums of rounded products and one rounding to y's type allow.
pub fn assert_product(y: &Array, x: &Array, coded: &Coded, contract: Contract, context: &str) {
    let (outputs, inputs) = coded.features();
    let mut matrix = coded.matrix(contract);
    if contract == Contract::Factored {
        scale_rows(&mut matrix, coded);
    }
    let (x_values, y_values) = (values(x), values(y));
    assert_eq!(
        y_values.len(),
        x_values.len() / inputs * outputs,
        "{context}"
    );
    let each = 2.0_f64.powi(-23) * (inputs as f64).sqrt() + 2.0_f64.powi(-22);
    for (row, x) in x_values.chunks(inputs).enumerate() {
        for output in 0..outputs {
            let weights = &matrix[output * inputs..][..inputs];
            let (mut sum, mut magnitude) = (0.0, 0.0);
            for (x, w) in x.iter().zip(weights) {
                let product = f64::from(*x) * f64::from(*w);
                sum += product;
                magnitude += product.abs();
            }
            let bound = unit(y.dtype()) * sum.abs() + each * magnitude + 2.0_f64.powi(-24);
            let off = (f64::from(y_values[row * outputs + output]) - sum).abs();
            assert!(
                off <= bound,
                "{context}: row {row}, output {output} is off by {off:e}, bound {bound:e}"
            );
        }
    }
}

/// `x W^T` of the factored contract for x of small integers, whose sums are exact, rounded to `dtype`.
/// The code runs along the inputs.
pub fn exact_product(x: &[f32], coded: &Coded, dtype: Dtype) -> Array {
    let (outputs, inputs) = coded.features();
    let codes = coded.stored(Contract::Factored);
    let factors = trellis_codec::factored_scales(&coded.scales);
    let mut product = Vec::new();
    for x in x.chunks(inputs) {
        for (codes, factor) in codes.chunks(inputs).zip(&factors) {
            let terms = x.iter().zip(codes).map(|(x, y)| *x as i64 * *y as i64);
            let sum: i64 = terms.sum();
            assert!(sum.abs() < 1 << 24);
            product.push(sum as f32 * factor);
        }
    }
    let shape = [(x.len() / inputs) as i32, outputs as i32];
    floats(&product, &shape, dtype)
}

/// Completes weights of the factored contract: integer codes times scale and step.
fn scale_rows(matrix: &mut [f32], coded: &Coded) {
    let factors = trellis_codec::factored_scales(&coded.scales);
    let (_, inputs) = coded.features();
    for (i, weight) in matrix.iter_mut().enumerate() {
        let stored_row = match coded.geometry.axis() {
            Axis::Input => i / inputs,
            Axis::Output => i % inputs,
        };
        *weight *= factors[stored_row];
    }
}

/// Asserts that two arrays have the same shape, dtype and bits.
pub fn assert_same(found: &Array, expected: &Array, context: &str) {
    assert_eq!(found.shape(), expected.shape(), "{context}");
    assert_eq!(found.dtype(), expected.dtype(), "{context}");
    let (found, expected) = (super::bits(found), super::bits(expected));
    let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
    if let Some(at) = differs {
        panic!(
            "{context}: element {at} is {:e}, expected {:e}",
            f32::from_bits(found[at]),
            f32::from_bits(expected[at])
        );
    }
}

/// Asserts `max |found - expected| <= 0.02 max |expected|`: what kernels of different contracts
/// promise each other.
pub fn assert_close(found: &Array, expected: &Array, context: &str) {
    assert_eq!(found.shape(), expected.shape(), "{context}");
    let (found, expected) = (values(found), values(expected));
    let largest =
        |values: &mut dyn Iterator<Item = f32>| values.fold(0.0_f32, |a, b| a.max(b.abs()));
    let off = largest(&mut found.iter().zip(&expected).map(|(a, b)| a - b));
    let size = largest(&mut expected.iter().copied());
    assert!(
        off <= 0.02 * size,
        "{context}: off by {off:e}, largest {size:e}"
    );
    assert!(found.iter().all(|value| value.is_finite()), "{context}");
}

/// Shows that a kernel keeps leading dimensions, and that strides and the place of x in memory do not
/// matter, on three rows.
pub fn check_views(coded: &Coded, kernel: impl Fn(&Array) -> Array) {
    let (outputs, inputs) = coded.features();
    let (outputs, inputs) = (outputs as i32, inputs as i32);
    let numbers = Random::new(5).floats(3 * (inputs as usize + 1));
    for dtype in FLOATS {
        // Rows that start one element further in each time, so at every alignment.
        let wide = floats(&numbers, &[3, inputs + 1], dtype);
        let rows = [
            wide.index((0, 1..)),
            wide.index((1, ..inputs)),
            wide.index((2, 1..)),
        ];
        let plain = ops::stack(&rows, 0).unwrap();
        let doubled = ops::repeat_axis::<f32>(plain.clone(), 2, 0).unwrap();
        on_kernels(|backend| {
            let y = kernel(&plain);
            let strided = doubled.index((..).stride_by(2));
            assert_same(&kernel(&strided), &y, "strided");
            for (row, x) in rows.iter().enumerate() {
                let context = format!("{backend} {row}");
                assert_same(&kernel(x), &y.index(row as i32), &context);
            }
            let deep = plain.reshape(&[3, 1, 1, inputs]).unwrap();
            assert_eq!(kernel(&deep).shape(), [3, 1, 1, outputs]);
            let none = plain.reshape(&[1, 3, inputs]).unwrap().index((.., ..0, ..));
            let y = kernel(&none);
            assert_eq!((y.shape(), y.dtype()), (&[1, 0, outputs][..], dtype));
        });
    }
}
