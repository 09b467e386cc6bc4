//! `trellis::matmul` on every back end of this machine: golden cases, a float64 reference, what must
//! not depend on the rows, and refusals.

mod common;

use common::trellis::{assert_golden, assert_golden_rounded, golden_weight};
use common::{FLOATS, Random, array, backends, bits, floats, on, on_invariant, unit, values};
use half::f16;
use integration_tests::golden;
use mlx_kernels::trellis::{self, Plan, Product, Selection, TrellisWeight};
use mlx_kernels::{Backend, Context};
use mlx_rs::ops::indexing::{IndexOp, IntoStrideBy};
use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Contract, Format, Geometry, Layout, ModuleEntry, decode};

/// A weight of random words, as arrays and as its decoded `[outputs, inputs]` matrix.
struct Coded {
    weight: TrellisWeight,
    matrix: Vec<f32>,
}

impl Coded {
    /// The same with the matrix rounded to a type.
    fn rounded(&self, dtype: Dtype) -> Self {
        let shape = [self.matrix.len() as i32];
        Self {
            weight: self.weight.clone(),
            matrix: values(&floats(&self.matrix, &shape, dtype)),
        }
    }
}

/// Whether the plan for x multiplies with weights that are rounded to x's type.
fn rounds_weights(backend: Backend, weight: &TrellisWeight, x: &Array) -> bool {
    let rows = x.size() as i32 / weight.inputs();
    match planned(backend, weight, rows, x.dtype()) {
        Plan::PrefillTiled | Plan::PrefillSplit | Plan::PrefillWide => true,
        Plan::Expand => backend.is_gpu(),
        _ => false,
    }
}

/// Whether the plan for x is a stock float32 product on CUDA, which MLX computes with factors of 11 bits
/// (TF32). The simulator's stock products run on MLX's own device too.
fn has_short_factors(backend: Backend, weight: &TrellisWeight, x: &Array) -> bool {
    let rows = x.size() as i32 / weight.inputs();
    let plan = planned(backend, weight, rows, x.dtype());
    let is_wide = x.dtype() == Dtype::Float32 || backend == Backend::Sim;
    Backend::Cuda.is_available() && is_wide && plan == Plan::Expand
}

fn planned(backend: Backend, weight: &TrellisWeight, rows: i32, dtype: Dtype) -> Plan {
    let context = Context::new(backend).unwrap();
    let product = Product {
        geometry: *weight.geometry(),
        rows,
        dtype,
    };
    let (profile, options) = (context.profile(), context.options());
    trellis::plan(&product, profile, options, Selection::default())
}

fn coded(format: Format, axis: Axis, layout: Layout, outputs: usize, inputs: usize) -> Coded {
    let (rows, cols) = match axis {
        Axis::Input => (outputs, inputs),
        Axis::Output => (inputs, outputs),
    };
    let geometry = Geometry::new(format, axis, layout, rows, cols).unwrap();
    let mut random = Random::new((rows * 31 + cols) as u64 + u64::from(format.bits()));
    let codes = random.words(geometry.words());
    let scales: Vec<f16> = (0..rows)
        .map(|_| f16::from_f32(random.float() * 0.1))
        .collect();
    let wide: Vec<f32> = scales.iter().map(|scale| scale.to_f32()).collect();
    let stored = decode(&geometry, &codes, &wide, Contract::Exact).unwrap();
    let at = |output: usize, input: usize| match axis {
        Axis::Input => stored[output * cols + input],
        Axis::Output => stored[input * cols + output],
    };
    let matrix = (0..outputs * inputs)
        .map(|i| at(i / inputs, i % inputs))
        .collect();
    let shape: Vec<i32> = geometry.codes_shape().iter().map(|&d| d as i32).collect();
    let weight = TrellisWeight::new(
        Array::from_slice(&codes, &shape),
        Array::from_slice(&scales, &[rows as i32]),
        &geometry.entry(),
    )
    .unwrap();
    assert_eq!(weight.geometry(), &geometry);
    Coded { weight, matrix }
}

/// Weights of both axes and layouts, of several widths and blocks.
fn weights() -> Vec<Coded> {
    let format = |bits, block| Format::new(bits, 12, block).unwrap();
    vec![
        coded(format(3, 192), Axis::Input, Layout::Rows, 33, 576),
        coded(format(2, 256), Axis::Input, Layout::Rows, 1, 256),
        coded(format(5, 32), Axis::Input, Layout::Rows, 7, 96),
        coded(format(4, 192), Axis::Output, Layout::Rows, 192, 67),
        coded(format(1, 256), Axis::Output, Layout::Rows, 512, 3),
        coded(format(3, 256), Axis::Output, Layout::BlockPairs, 512, 5),
        coded(format(2, 64), Axis::Output, Layout::BlockPairs, 128, 9),
    ]
}

/// Holds `y` to the float64 product within roundings of the weights and the sums, and `factor` of each
/// product.
fn check(y: &Array, x: &Array, coded: &Coded, factor: f64, context: &str) {
    let (inputs, outputs) = (
        coded.weight.inputs() as usize,
        coded.weight.outputs() as usize,
    );
    let (x_values, y_values) = (values(x), values(y));
    let u = unit(x.dtype());
    let each = 2.0_f64.powi(-23) * (inputs as f64).sqrt() + 2.0_f64.powi(-22) + factor;
    for (row, x) in x_values.chunks(inputs).enumerate() {
        for output in 0..outputs {
            let weights = &coded.matrix[output * inputs..][..inputs];
            let terms = || {
                x.iter()
                    .zip(weights)
                    .map(|(x, w)| f64::from(*x) * f64::from(*w))
            };
            let (sum, magnitude) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            let bound = u * sum.abs() + each * magnitude + 2.0_f64.powi(-24);
            let off = (f64::from(y_values[row * outputs + output]) - sum).abs();
            assert!(
                off <= bound,
                "{context}: row {row}, output {output} is off by {off:e}, bound {bound:e}"
            );
        }
    }
}

#[test]
fn golden_products_are_within_tolerance() {
    for file in [
        "trellis_axis1",
        "trellis_axis0",
        "trellis_axis0_interleaved",
    ] {
        for case in golden::load(file) {
            let (weight, x) = (golden_weight(&case, ""), array(case.tensor("x")));
            for backend in backends() {
                let y = on(backend, || trellis::matmul(&x, &weight).unwrap());
                assert_eq!(y.dtype(), x.dtype());
                let context = backend.to_string();
                if has_short_factors(backend, &weight, &x) {
                    continue; // The cases have no tolerances for it.
                }
                if rounds_weights(backend, &weight, &x) {
                    assert_golden_rounded(&y, &case, &context);
                } else {
                    assert_golden(&y, &case, &context);
                }
            }
        }
    }
}

#[test]
fn expansion_is_the_decoded_matrix() {
    for coded in weights() {
        let expanded = coded.weight.expand(Dtype::Float32).unwrap();
        assert_eq!(
            expanded.shape(),
            [coded.weight.outputs(), coded.weight.inputs()]
        );
        assert_eq!(values(&expanded), coded.matrix);
        let shape = [coded.matrix.len() as i32];
        for dtype in FLOATS {
            let rounded = values(&floats(&coded.matrix, &shape, dtype));
            assert_eq!(values(&coded.weight.expand(dtype).unwrap()), rounded);
        }
    }
}

#[test]
fn products_match_float64_at_any_rows_and_dtype() {
    for coded in weights() {
        let inputs = coded.weight.inputs();
        for rows in [1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 64] {
            for dtype in FLOATS {
                let values = Random::new(rows as u64).floats((rows * inputs) as usize);
                let x = floats(&values, &[rows, inputs], dtype);
                for backend in backends() {
                    let y = on(backend, || trellis::matmul(&x, &coded.weight).unwrap());
                    assert_eq!(y.dtype(), dtype);
                    assert_eq!(y.shape(), [rows, coded.weight.outputs()]);
                    let context = format!("{backend} {rows} rows {dtype:?}");
                    let short = has_short_factors(backend, &coded.weight, &x);
                    let factor = if short { 2.0_f64.powi(-10) } else { 0.0 };
                    if rounds_weights(backend, &coded.weight, &x) {
                        check(&y, &x, &coded.rounded(dtype), factor, &context);
                    } else {
                        check(&y, &x, &coded, factor, &context);
                    }
                }
            }
        }
    }
}

#[test]
fn leading_dimensions_stay_and_strides_do_not_matter() {
    for coded in weights() {
        let inputs = coded.weight.inputs();
        let values = Random::new(5).floats(6 * inputs as usize);
        let plain = floats(&values, &[2, 3, inputs], Dtype::Float32);
        // The same numbers behind a transposition, and as every second row of a larger array.
        let turned = plain
            .transpose_axes(&[2, 1, 0])
            .unwrap()
            .add(Array::from_f32(0.0))
            .unwrap()
            .transpose_axes(&[2, 1, 0])
            .unwrap();
        let doubled = mlx_rs::ops::repeat_axis::<f32>(plain.clone(), 2, 1).unwrap();
        let strided = doubled.index((.., (..).stride_by(2), ..));
        for backend in backends() {
            let run = |x: &Array| on(backend, || trellis::matmul(x, &coded.weight).unwrap());
            let y = run(&plain);
            assert_eq!(y.shape(), [2, 3, coded.weight.outputs()]);
            assert_eq!(bits(&run(&turned)), bits(&y), "{backend}");
            assert_eq!(bits(&run(&strided)), bits(&y), "{backend}");
            let one = run(&plain.index((0, 0, ..)));
            assert_eq!(one.shape(), [coded.weight.outputs()]);
            let none = run(&plain.index((..0, .., ..)));
            assert_eq!(none.shape(), [0, 3, coded.weight.outputs()]);
        }
    }
}

#[test]
fn invariant_plans_give_a_row_the_same_bits_beside_any_others() {
    for coded in weights() {
        let (inputs, outputs) = (coded.weight.inputs(), coded.weight.outputs() as usize);
        let values = Random::new(3).floats(64 * inputs as usize);
        for backend in backends() {
            on_invariant(backend, || {
                let x = floats(&values, &[64, inputs], Dtype::Float32);
                let all = bits(&trellis::matmul(&x, &coded.weight).unwrap());
                for rows in [1, 2, 5, 8, 17] {
                    let some = x.index(..rows);
                    let some = bits(&trellis::matmul(&some, &coded.weight).unwrap());
                    assert_eq!(some, all[..rows as usize * outputs], "{backend} {rows}");
                }
            });
        }
    }
}

#[test]
fn plans_follow_the_back_end_and_the_block() {
    let plan_on = |backend, block, rows| {
        let format = Format::new(4, 12, block).unwrap();
        let coded = coded(format, Axis::Input, Layout::Rows, 2, 3 * block);
        planned(backend, &coded.weight, rows, Dtype::Float32)
    };
    assert_eq!(plan_on(Backend::Cpu, 16, 1), Plan::Cpu);
    // Blocks of 8 weights are legal codes that the SIMD code does not take.
    assert_eq!(plan_on(Backend::Cpu, 8, 1), Plan::Expand);
    // Nor are such blocks whole runs for the kernels.
    assert_eq!(plan_on(Backend::Sim, 8, 1), Plan::Expand);
    assert_eq!(plan_on(Backend::Sim, 256, 1), Plan::Reduce);
    assert_eq!(plan_on(Backend::Sim, 256, 4), Plan::ReduceShared);
    assert_eq!(plan_on(Backend::Sim, 256, 5), Plan::Expand);

    if Backend::detect().is_gpu() {
        return; // The stock product of the CPU's plan runs on MLX's device, with its accuracy.
    }
    let format = Format::new(4, 12, 8).unwrap();
    let short = coded(format, Axis::Input, Layout::Rows, 3, 40);
    let x = floats(&Random::new(1).floats(80), &[2, 40], Dtype::Float32);
    let y = on(Backend::Cpu, || trellis::matmul(&x, &short.weight).unwrap());
    check(&y, &x, &short, 0.0, "blocks of 8");
}

#[test]
fn not_a_number_stays_in_its_row() {
    for coded in weights() {
        let inputs = coded.weight.inputs();
        let mut values_in = Random::new(9).floats(3 * inputs as usize);
        values_in[inputs as usize] = f32::NAN;
        let x = floats(&values_in, &[3, inputs], Dtype::Float32);
        for backend in backends() {
            let y = on(backend, || {
                values(&trellis::matmul(&x, &coded.weight).unwrap())
            });
            let outputs = coded.weight.outputs() as usize;
            for (row, y) in y.chunks(outputs).enumerate() {
                assert!(
                    y.iter().all(|y| y.is_nan() == (row == 1)),
                    "{backend} {row}"
                );
            }
        }
    }
}

#[test]
fn refusals_name_the_argument_and_what_it_must_be() {
    let format = Format::new(3, 12, 256).unwrap();
    let good = coded(format, Axis::Input, Layout::Rows, 4, 512).weight;
    let entry = good.geometry().entry();
    let refused = |codes: &Array, scales: &Array, entry: &ModuleEntry, words: &[&str]| {
        let error = TrellisWeight::new(codes.clone(), scales.clone(), entry)
            .unwrap_err()
            .to_string();
        for word in words {
            assert!(error.contains(word), "{error} lacks {word}");
        }
    };
    let (codes, scales) = (good.codes(), good.scales());
    let signed = codes.as_dtype(Dtype::Int32).unwrap();
    refused(&signed, scales, &entry, &["codes", "Int32", "uint32"]);
    let whole = scales.as_dtype(Dtype::Int32).unwrap();
    refused(codes, &whole, &entry, &["scales", "Int32", "float32"]);
    refused(codes, &scales.index(..3), &entry, &["[3]", "4"]);
    refused(&codes.index((.., ..47)), scales, &entry, &["47", "3"]);
    refused(&codes.index((.., ..36)), scales, &entry, &["384", "256"]);
    refused(
        &codes.flatten(None, None).unwrap(),
        scales,
        &entry,
        &["2-D"],
    );
    let affine = ModuleEntry {
        mode: "affine".into(),
        ..entry.clone()
    };
    refused(codes, scales, &affine, &["affine", "trellis"]);

    let product = |x: &Array| trellis::matmul(x, &good).unwrap_err().to_string();
    let narrow = floats(&[0.0; 511], &[1, 511], Dtype::Float32);
    let error = product(&narrow);
    assert!(
        error.contains("[1, 511]") && error.contains("512"),
        "{error}"
    );
    let error = product(&Array::from_f32(1.0));
    assert!(error.contains("last dimension"), "{error}");
    let error = product(&Array::from_slice(&[0_i32; 512], &[1, 512]));
    assert!(
        error.contains("Int32") && error.contains("float16"),
        "{error}"
    );
}
