//! `ops::quantized_matmul` on every back end of this machine: golden cases, a float64 reference,
//! what the stock operation does with the same arguments, and refusals.

mod common;

use common::{FLOATS, Random, array, backends, bits, floats, on, on_invariant, unit, values};
use integration_tests::golden;
use mlx_kernels::affine::{self, BITS, GROUP_SIZES, Plan, Planned};
use mlx_kernels::{Backend, ops};
use mlx_kernels_cpu::reference;
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype};

/// A random product with its float64 result and each element's error bound.
struct Product {
    x: Array,
    w: Array,
    scales: Array,
    biases: Array,
    bits: i32,
    group: i32,
    expected: Vec<f64>,
    bound: Vec<f64>,
}

impl Product {
    /// `x` is `[rows, k]` of `dtype`; scales and biases are of `scale_dtype`.
    fn new(
        rows: i32,
        n: i32,
        k: i32,
        (bits, group): (i32, i32),
        dtype: Dtype,
        scale_dtype: Dtype,
    ) -> Self {
        let mut random = Random::new((rows * 31 + n * 7 + k + bits * 3 + group) as u64);
        let groups = k / group;
        let words = k / 32 * bits;
        let x = floats(&random.floats((rows * k) as usize), &[rows, k], dtype);
        let w = Array::from_slice(&random.words((n * words) as usize), &[n, words]);
        let mut scale = || {
            random
                .floats((n * groups) as usize)
                .iter()
                .map(|v| v * 0.05)
                .collect::<Vec<_>>()
        };
        let scales = floats(&scale(), &[n, groups], scale_dtype);
        let biases = floats(&scale(), &[n, groups], scale_dtype);
        let mut product = Self {
            x,
            w,
            scales,
            biases,
            bits,
            group,
            expected: Vec::new(),
            bound: Vec::new(),
        };
        product.compute_reference(dtype);
        product
    }

    /// The bound is that of the split form, the widest of the kernels' (its weights are formed from
    /// `bias - 2^bits * scale`), with one rounding to the result's type.
    fn compute_reference(&mut self, result: Dtype) {
        let (n, k) = (self.w.dim(0) as usize, self.x.dim(1) as usize);
        let x = values(&self.x);
        let codes = reference::affine::unpack(self.w.as_slice::<u32>(), self.bits as usize, n * k);
        let (scales, biases) = (values(&self.scales), values(&self.biases));
        let group = self.group as usize;
        for row in x.chunks(k) {
            for output in 0..n {
                let (mut sum, mut magnitude) = (0.0, 0.0);
                for (i, &x) in row.iter().enumerate() {
                    let at = output * (k / group) + i / group;
                    let (s, b) = (f64::from(scales[at]), f64::from(biases[at]));
                    let code = f64::from(codes[output * k + i]);
                    let weight = s * code + b;
                    sum += f64::from(x) * weight;
                    let parts = (s.abs() * code + b.abs())
                        .max(weight.abs() + (b - f64::from(1 << self.bits) * s).abs());
                    magnitude += f64::from(x).abs() * parts;
                }
                self.expected.push(sum);
                let single = 2.0_f64.powi(-24) * (16.0 + (k as f64).sqrt()) * magnitude;
                self.bound
                    .push(unit(result) * sum.abs() + single + 2.0_f64.powi(-24));
            }
        }
    }

    fn run(&self) -> Array {
        self.run_on(&self.x)
    }

    fn planned(&self) -> Planned {
        let Self {
            x,
            w,
            scales,
            biases,
            bits,
            group,
            ..
        } = self;
        affine::quantized_matmul(x, w, scales, Some(biases), true, *group, *bits).unwrap()
    }

    fn run_on(&self, x: &Array) -> Array {
        ops::quantized_matmul(
            x,
            &self.w,
            &self.scales,
            &self.biases,
            true,
            self.group,
            self.bits,
        )
        .unwrap()
    }

    fn stock(&self, x: &Array) -> Array {
        mlx_rs::ops::quantized_matmul(
            x,
            &self.w,
            &self.scales,
            &self.biases,
            true,
            self.group,
            self.bits,
        )
        .unwrap()
    }

    /// Checks a planned product. The stock operation sums in narrow types on the CPU and on CUDA, so
    /// it keeps to no such bound; its shape is checked all the same.
    fn check_planned(&self, planned: &Planned, context: &str) {
        if planned.plan == Plan::Stock {
            assert_eq!(planned.result.size(), self.expected.len(), "{context}");
        } else {
            self.check(&planned.result, context);
        }
    }

    fn check(&self, y: &Array, context: &str) {
        let y = values(y);
        assert_eq!(y.len(), self.expected.len(), "{context}");
        for (i, ((&y, &expected), &bound)) in
            y.iter().zip(&self.expected).zip(&self.bound).enumerate()
        {
            let error = (f64::from(y) - expected).abs();
            assert!(
                error <= bound,
                "{context}: element {i} is {y}, expected {expected} +- {bound}"
            );
        }
    }
}

#[test]
fn golden_cases_pass_on_every_back_end() {
    let mut checked = 0;
    for bits in BITS {
        for case in golden::load(&format!("affine_matmul_b{bits}")) {
            let operand = |name| array(case.tensor(name));
            let (expected, tolerance) = (case.tensor("expected").f32(), case.tensor("tol").f32());
            for backend in backends() {
                let group = case.int("group") as i32;
                let [x, w, scales, biases] = ["x", "w_q", "scales", "biases"].map(operand);
                let planned = on(backend, || {
                    affine::quantized_matmul(&x, &w, &scales, Some(&biases), true, group, bits)
                });
                let Planned { result, plan } = planned.unwrap();
                assert_eq!(result.dtype(), x.dtype());
                if plan == Plan::Stock {
                    continue;
                }
                for (i, y) in values(&result).into_iter().enumerate() {
                    let error = (y - expected[i]).abs();
                    assert!(
                        error <= tolerance[i],
                        "{backend} {plan} b{bits} {}: {i}: {y}",
                        case.name
                    );
                }
                checked += 1;
            }
        }
    }
    assert!(checked >= 6 * 23 * 2, "{checked} cases");
}

#[test]
fn every_format_and_type_is_within_the_bound() {
    for backend in backends() {
        for format in BITS
            .into_iter()
            .flat_map(|bits| GROUP_SIZES.map(|group| (bits, group)))
        {
            for (dtype, rows) in FLOATS.into_iter().zip([5, 1, 9]) {
                let product = Product::new(rows, 16, 384, format, dtype, dtype);
                let planned = on(backend, || product.planned());
                let context = format!("{backend}, {format:?}, {dtype:?}, {rows} rows");
                product.check_planned(&planned, &context);
            }
        }
    }
}

#[test]
fn every_row_count_and_edge_is_within_the_bound() {
    for backend in backends() {
        let check = |product: &Product, what: &str| {
            product.check_planned(
                &on(backend, || product.planned()),
                &format!("{backend}, {what}"),
            );
        };
        for rows in [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 32, 33, 63, 64] {
            let product = Product::new(rows, 24, 128, (4, 64), Dtype::Bfloat16, Dtype::Bfloat16);
            check(&product, &format!("{rows} rows"));
        }
        for n in [1, 4, 7, 8, 12, 16, 33, 96, 128] {
            let product = Product::new(3, n, 96, (3, 32), Dtype::Float16, Dtype::Float16);
            check(&product, &format!("N = {n}"));
        }
        for k in [32, 64, 96, 128, 544, 576, 1024, 4320, 5120] {
            let product = Product::new(2, 8, k, (5, 32), Dtype::Float32, Dtype::Float32);
            check(&product, &format!("K = {k}"));
        }
    }
}

#[test]
fn the_result_has_the_stock_type_and_leading_dimensions() {
    for backend in backends() {
        for dtype in FLOATS {
            for scale_dtype in FLOATS {
                let product = Product::new(6, 8, 64, (4, 32), dtype, scale_dtype);
                for shape in [&[6, 64][..], &[2, 3, 64], &[1, 6, 1, 64]] {
                    let x = product.x.reshape(shape).unwrap();
                    let (ours, stock) = (on(backend, || product.run_on(&x)), product.stock(&x));
                    assert_eq!(ours.shape(), stock.shape(), "{backend}");
                    assert_eq!(
                        ours.dtype(),
                        stock.dtype(),
                        "{backend} {dtype:?} {scale_dtype:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_vector_gives_a_vector() {
    for backend in backends() {
        let product = Product::new(1, 16, 64, (4, 64), Dtype::Float32, Dtype::Float32);
        let y = on(backend, || {
            product.run_on(&product.x.reshape(&[64]).unwrap())
        });
        assert_eq!(y.shape(), [16]);
        product.check(&y, backend.name());
    }
}

#[test]
fn strided_broadcast_and_offset_inputs_equal_their_copies() {
    for backend in backends() {
        let product = Product::new(6, 8, 64, (4, 32), Dtype::Float32, Dtype::Float32);
        let expected = on(backend, || product.run());
        let columns_first: Vec<f32> = values(&product.x.transpose().unwrap());
        let transposed = Array::from_slice(&columns_first, &[64, 6])
            .transpose()
            .unwrap();
        let columns = mlx_rs::ops::concatenate(&[&product.x, &product.x], 1).unwrap();
        let shifted = {
            let lead = mlx_rs::ops::zeros::<f32>(&[1]).unwrap();
            let flat =
                mlx_rs::ops::concatenate(&[&lead, &product.x.reshape(&[-1]).unwrap()], 0).unwrap();
            flat.index(1..).reshape(&[6, 64]).unwrap()
        };
        for x in [transposed, columns.index((.., ..64)), shifted] {
            assert_eq!(
                bits(&on(backend, || product.run_on(&x))),
                bits(&expected),
                "{backend}"
            );
        }
        let row = product.x.index(0..1);
        let broadcast = mlx_rs::ops::broadcast_to(&row, &[6, 64]).unwrap();
        let copied = Array::from_slice(&values(&broadcast), &[6, 64]);
        let (ours, copy) = on(backend, || {
            (product.run_on(&broadcast), product.run_on(&copied))
        });
        assert_eq!(bits(&ours), bits(&copy), "{backend}");
    }
}

#[test]
fn no_rows_give_an_empty_result() {
    for backend in backends() {
        let product = Product::new(1, 8, 64, (4, 32), Dtype::Float16, Dtype::Float16);
        let x = product.x.index(0..0);
        for shape in [&[0, 64][..], &[2, 0, 64]] {
            let y = on(backend, || product.run_on(&x.reshape(shape).unwrap()));
            y.eval().unwrap();
            let mut expected = shape.to_vec();
            *expected.last_mut().unwrap() = 8;
            assert_eq!(
                (y.shape(), y.dtype()),
                (&expected[..], Dtype::Float16),
                "{backend}"
            );
        }
    }
}

#[test]
fn a_row_s_bits_do_not_depend_on_its_company_under_invariant_plans() {
    for backend in backends() {
        for (n, k, format) in [(24, 320, (4, 64)), (12, 96, (3, 32)), (7, 64, (8, 64))] {
            let product = Product::new(17, n, k, format, Dtype::Bfloat16, Dtype::Bfloat16);
            let all = bits(&on_invariant(backend, || product.run()));
            for rows in 1..17 {
                let y = on_invariant(backend, || product.run_on(&product.x.index(0..rows)));
                assert_eq!(
                    bits(&y),
                    all[..(rows * n) as usize],
                    "{backend}, N = {n}, {rows} rows"
                );
                let last =
                    on_invariant(backend, || product.run_on(&product.x.index(rows..rows + 1)));
                let own = (rows * n) as usize..((rows + 1) * n) as usize;
                assert_eq!(
                    bits(&last),
                    all[own],
                    "{backend}, N = {n}, row {rows} alone"
                );
            }
        }
    }
}

#[test]
fn nan_and_infinity_stay_in_their_row() {
    for backend in backends() {
        for rows in [2, 5, 8, 12] {
            let product = Product::new(rows, 16, 128, (4, 64), Dtype::Float32, Dtype::Float32);
            let clean = values(&on(backend, || product.run()));
            let mut x = values(&product.x);
            x[3] = f32::NAN;
            x[128 + 77] = f32::INFINITY;
            let y = values(&on(backend, || {
                product.run_on(&floats(&x, &[rows, 128], Dtype::Float32))
            }));
            assert!(y[..16].iter().all(|value| value.is_nan()), "{backend}");
            assert!(
                y[16..32].iter().all(|value| !value.is_finite()),
                "{backend}"
            );
            assert_eq!(y[32..], clean[32..], "{backend}, {rows} rows");
        }
    }
}

#[test]
fn zero_groups_and_zero_activations_are_exact() {
    for backend in backends() {
        let mut product = Product::new(3, 8, 64, (4, 32), Dtype::Float32, Dtype::Float32);
        let zeros = mlx_rs::ops::zeros::<f32>(&[3, 64]).unwrap();
        let y = on(backend, || product.run_on(&zeros));
        assert!(values(&y).iter().all(|&value| value == 0.0), "{backend}");
        product.scales = mlx_rs::ops::zeros::<f32>(&[8, 2]).unwrap();
        product.biases = product.scales.clone();
        assert!(
            values(&on(backend, || product.run()))
                .iter()
                .all(|&value| value == 0.0),
            "{backend}"
        );
    }
}

#[test]
fn what_no_kernel_takes_is_the_stock_operation() {
    for backend in backends() {
        on(backend, || {
            let product = Product::new(4, 64, 64, (4, 32), Dtype::Float32, Dtype::Float32);
            let Product {
                x,
                w,
                scales,
                biases,
                ..
            } = &product;
            let plain = affine::quantized_matmul(x, w, scales, Some(biases), false, 32, 4).unwrap();
            let stock = mlx_rs::ops::quantized_matmul(x, w, scales, biases, false, 32, 4).unwrap();
            assert_eq!(plain.plan, Plan::Stock);
            assert_eq!(bits(&plain.result), bits(&stock));

            let batched = |array: &Array| mlx_rs::ops::stack(&[array, array], 0).unwrap();
            let (w2, s2, b2) = (batched(w), batched(scales), batched(biases));
            let x2 = batched(x);
            let ours = affine::quantized_matmul(&x2, &w2, &s2, Some(&b2), true, 32, 4).unwrap();
            let stock = mlx_rs::ops::quantized_matmul(&x2, &w2, &s2, &b2, true, 32, 4).unwrap();
            assert_eq!(ours.plan, Plan::Stock);
            assert_eq!(bits(&ours.result), bits(&stock));

            // Affine products need biases: the stock operation's own error.
            assert!(ops::quantized_matmul(x, w, scales, None, true, 32, 4).is_err());
        });
    }
}

#[test]
fn defaults_are_those_of_the_stock_operation() {
    let product = Product::new(2, 64, 64, (4, 64), Dtype::Float32, Dtype::Float32);
    let Product {
        x,
        w,
        scales,
        biases,
        ..
    } = &product;
    let stock = mlx_rs::ops::quantized_matmul(x, w, scales, biases, None, None, None).unwrap();
    let ours = ops::quantized_matmul(x, w, scales, biases, None, None, None).unwrap();
    assert_eq!(bits(&ours), bits(&stock));
}

/// The message of a refused call, after `change` to a legal one.
fn refusal(change: impl FnOnce(&mut Product)) -> String {
    let mut product = Product::new(2, 8, 64, (4, 32), Dtype::Float32, Dtype::Float32);
    change(&mut product);
    let Product {
        x,
        w,
        scales,
        biases,
        bits,
        group,
        ..
    } = &product;
    ops::quantized_matmul(x, w, scales, biases, true, *group, *bits)
        .unwrap_err()
        .what()
        .to_owned()
}

#[test]
fn each_wrong_argument_is_named() {
    let zeros = |shape: &[i32]| mlx_rs::ops::zeros::<f32>(shape).unwrap();
    for (message, parts) in [
        (refusal(|p| p.bits = 7), ["bits is 7", "[2, 3, 4, 5, 6, 8]"]),
        (refusal(|p| p.bits = 1), ["bits is 1", "[2, 3, 4, 5, 6, 8]"]),
        (
            refusal(|p| p.group = 16),
            ["group_size is 16", "[32, 64, 128]"],
        ),
        (
            refusal(|p| p.w = p.w.as_dtype(Dtype::Int32).unwrap()),
            ["w has dtype Int32", "uint32"],
        ),
        (
            refusal(|p| p.scales = p.scales.as_dtype(Dtype::Int32).unwrap()),
            ["scales has dtype Int32", "float32"],
        ),
        (
            refusal(|p| p.biases = p.biases.as_dtype(Dtype::Uint8).unwrap()),
            ["biases has dtype Uint8", "float32"],
        ),
        (
            refusal(|p| p.x = p.x.as_dtype(Dtype::Int32).unwrap()),
            ["x has dtype Int32", "float32"],
        ),
        (
            refusal(|p| p.x = zeros(&[2, 96])),
            ["x has shape [2, 96]", "K = 64"],
        ),
        (
            refusal(|p| p.x = Array::from_f32(1.0)),
            ["x has shape []", "K = 64"],
        ),
        (
            refusal(|p| p.biases = zeros(&[8, 1])),
            ["biases has shape [8, 1]", "[8, 2]"],
        ),
        (
            refusal(|p| {
                p.scales = zeros(&[7, 2]);
                p.biases = zeros(&[7, 2]);
            }),
            ["scales has shape [7, 2]", "[8, K / group_size]"],
        ),
        (
            refusal(|p| p.w = p.w.index((.., ..6))),
            ["w has shape [8, 6]", "[8, 8]"],
        ),
        (refusal(|p| p.bits = 8), ["w has shape [8, 8]", "[8, 16]"]),
    ] {
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
        assert!(message.contains("[quantized_matmul]"), "{message}");
    }
}

#[test]
fn a_lazy_result_composes_with_stock_operations() {
    for backend in backends() {
        let product = Product::new(2, 8, 64, (4, 32), Dtype::Float32, Dtype::Float32);
        let y = on(backend, || product.run_on(&(&product.x * 2.0)) * 0.5);
        product.check(&y, backend.name());
    }
}

#[test]
fn the_cpu_is_never_stock_for_affine_products() {
    on(Backend::Cpu, || {
        let product = Product::new(2, 7, 32, (2, 32), Dtype::Float32, Dtype::Float32);
        let Product {
            x,
            w,
            scales,
            biases,
            ..
        } = &product;
        let planned = affine::quantized_matmul(x, w, scales, Some(biases), true, 32, 2).unwrap();
        assert_eq!(planned.plan, Plan::Cpu);
    });
}
