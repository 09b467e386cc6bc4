//! `ops::add_rms_norm` on every back end of this machine.

mod common;

use common::{FLOATS, Random, array, backends, bits, floats, on, unit, values};
use integration_tests::golden;
use mlx_kernels::{Backend, ops};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype};

const COLUMNS: [i32; 14] = [
    1, 3, 4, 5, 127, 128, 129, 1000, 2048, 4095, 4096, 4097, 5120, 8192,
];

fn random(shape: &[i32], dtype: Dtype, seed: u64) -> Array {
    let count = shape.iter().product::<i32>() as usize;
    floats(&Random::new(seed).floats(count), shape, dtype)
}

fn run(backend: Backend, x: &Array, update: &Array, weight: &Array, eps: f32) -> (Array, Array) {
    on(backend, || ops::add_rms_norm(x, update, weight, eps)).unwrap()
}

fn stock(x: &Array, update: &Array, weight: &Array, eps: f32) -> (Array, Array) {
    let residual = mlx_rs::ops::add(x, update).unwrap();
    let normalized = mlx_rs::fast::rms_norm(&residual, Some(weight), eps).unwrap();
    (residual, normalized)
}

/// How far apart two results of one type may lie: two units in the last place, four in float32, and
/// the difference between two float32 sums of as many squares, in whatever order (halved by the root).
fn assert_near(ours: &Array, stock: &Array, dtype: Dtype, context: &str) {
    let steps = if dtype == Dtype::Float32 { 4.0 } else { 2.0 };
    let columns = f64::from(ours.dim(-1));
    let sums = (8.0 + columns.sqrt()) * 2.0_f64.powi(-24);
    for (a, b) in values(ours).into_iter().zip(values(stock)) {
        let (a, b) = (f64::from(a), f64::from(b));
        let allowed = (steps * 2.0 * unit(dtype) + sums) * b.abs() + 1e-7;
        assert!((a - b).abs() <= allowed, "{context}: {a} and {b}");
    }
}

#[test]
fn golden_cases_pass_on_every_back_end() {
    for case in golden::load("residual_rms_norm") {
        let operand = |name| array(case.tensor(name));
        for backend in backends() {
            let eps = case.float("eps") as f32;
            let (residual, normalized) = run(
                backend,
                &operand("x"),
                &operand("update"),
                &operand("weight"),
                eps,
            );
            assert_eq!(
                values(&residual),
                case.tensor("residual").to_f32(),
                "{backend} {}",
                case.name
            );
            let (expected, tolerance) =
                (case.tensor("normalized").to_f32(), case.tensor("tol").f32());
            for (i, y) in values(&normalized).into_iter().enumerate() {
                assert!(
                    (y - expected[i]).abs() <= tolerance[i],
                    "{backend} {}: {i}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn the_pair_is_stock_add_and_rms_norm() {
    for backend in backends() {
        for (dtype, columns) in FLOATS
            .into_iter()
            .flat_map(|dtype| COLUMNS.map(|n| (dtype, n)))
        {
            for leading in [&[1][..], &[2], &[17], &[2, 3], &[]] {
                let shape: Vec<i32> = leading.iter().copied().chain([columns]).collect();
                let (x, update) = (random(&shape, dtype, 1), random(&shape, dtype, 2));
                let weight = random(&[columns], dtype, 3);
                let ours = run(backend, &x, &update, &weight, 1e-6);
                let expected = stock(&x, &update, &weight, 1e-6);
                let context = format!("{backend}, {dtype:?}, {shape:?}");
                assert_eq!(ours.0.shape(), shape, "{context}");
                assert_eq!(
                    (ours.0.dtype(), ours.1.dtype()),
                    (dtype, dtype),
                    "{context}"
                );
                assert_eq!(bits(&ours.0), bits(&expected.0), "{context}");
                assert_near(&ours.1, &expected.1, dtype, &context);
            }
        }
    }
}

#[test]
fn the_norm_is_that_of_the_rounded_residual_in_float64() {
    for backend in backends() {
        for (dtype, columns) in FLOATS
            .into_iter()
            .flat_map(|dtype| [5, 1000, 4097].map(|n| (dtype, n)))
        {
            let (x, update) = (
                random(&[2, columns], dtype, 4),
                random(&[2, columns], dtype, 5),
            );
            let weight = random(&[columns], dtype, 6);
            let (residual, normalized) = run(backend, &x, &update, &weight, 1e-5);
            let (residual, normalized, weight) =
                (values(&residual), values(&normalized), values(&weight));
            for (row, y) in residual
                .chunks(columns as usize)
                .zip(normalized.chunks(columns as usize))
            {
                let squares: f64 = row.iter().map(|&r| f64::from(r) * f64::from(r)).sum();
                let scale = 1.0 / (squares / f64::from(columns) + f64::from(1e-5_f32)).sqrt();
                let single = (8.0 + f64::from(columns).sqrt()) * 2.0_f64.powi(-24);
                for ((&r, &w), &y) in row.iter().zip(&weight).zip(y) {
                    let expected = f64::from(r) * scale * f64::from(w);
                    let allowed = (2.5 * unit(dtype) + single) * expected.abs() + 1e-7;
                    assert!(
                        (f64::from(y) - expected).abs() <= allowed,
                        "{backend} {dtype:?}: {y} {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_residual_is_rounded_before_it_is_squared() {
    for backend in backends() {
        // 256 + 1 is a tie in bfloat16 and rounds to the even 256; its row's norm is then exactly 1.
        let x = floats(&[256.0; 8], &[1, 8], Dtype::Bfloat16);
        let update = floats(&[1.0; 8], &[1, 8], Dtype::Bfloat16);
        let weight = floats(&[1.0; 8], &[8], Dtype::Bfloat16);
        let (residual, normalized) = run(backend, &x, &update, &weight, 0.0);
        assert_eq!(values(&residual), [256.0; 8], "{backend}");
        assert_eq!(values(&normalized), [1.0; 8], "{backend}");
    }
}

#[test]
fn constant_and_cancelled_rows_are_exact() {
    for backend in backends() {
        for dtype in FLOATS {
            let ones = floats(&[1.0; 130], &[130], dtype);
            let (_, normalized) = run(
                backend,
                &floats(&[4.0; 130], &[1, 130], dtype),
                &floats(&[4.0; 130], &[1, 130], dtype),
                &ones,
                0.0,
            );
            assert_near(
                &normalized,
                &floats(&[1.0; 130], &[1, 130], dtype),
                dtype,
                backend.name(),
            );
            let x = random(&[1, 130], dtype, 7);
            let minus = mlx_rs::ops::negative(&x).unwrap();
            let (residual, normalized) = run(backend, &x, &minus, &ones, 1e-6);
            assert!(
                values(&residual)
                    .iter()
                    .chain(&values(&normalized))
                    .all(|&v| v == 0.0),
                "{backend}"
            );
            let (_, normalized) = run(backend, &x, &minus, &ones, 0.0);
            assert!(
                values(&normalized).iter().all(|v| v.is_nan()),
                "{backend}: 0 / 0"
            );
        }
    }
}

#[test]
fn infinities_and_nan_stay_in_their_row() {
    for backend in backends() {
        let mut x = vec![1.0_f32; 3 * 200];
        x[7] = f32::INFINITY;
        x[200 + 9] = f32::NAN;
        let zeros = floats(&[0.0; 600], &[3, 200], Dtype::Float32);
        let ones = floats(&[1.0; 200], &[200], Dtype::Float32);
        let (_, normalized) = run(
            backend,
            &floats(&x, &[3, 200], Dtype::Float32),
            &zeros,
            &ones,
            0.0,
        );
        let y = values(&normalized);
        assert!(
            y[7].is_nan()
                && y[..200]
                    .iter()
                    .enumerate()
                    .all(|(i, &v)| i == 7 || v == 0.0),
            "{backend}"
        );
        assert!(y[200..400].iter().all(|v| v.is_nan()), "{backend}");
        assert!(y[400..].iter().all(|v| (v - 1.0).abs() < 1e-6), "{backend}");
    }
}

#[test]
fn strided_inputs_and_no_rows_are_taken() {
    for backend in backends() {
        let weight = random(&[6], Dtype::Float32, 8);
        let wide = random(&[6, 4], Dtype::Float32, 9);
        let strided = wide.transpose().unwrap();
        let copied = Array::from_slice(&values(&strided), &[4, 6]);
        let ours = run(backend, &strided, &copied, &weight, 1e-5);
        let copy = run(backend, &copied, &copied, &weight, 1e-5);
        assert_eq!(bits(&ours.1), bits(&copy.1), "{backend}");
        let none = copied.index(0..0);
        let (residual, normalized) = run(backend, &none, &none, &weight, 1e-5);
        residual.eval().unwrap();
        assert_eq!(
            (residual.shape(), normalized.shape()),
            (&[0, 6][..], &[0, 6][..]),
            "{backend}"
        );
    }
}

#[test]
fn each_wrong_argument_is_named() {
    let x = random(&[2, 8], Dtype::Float32, 1);
    let weight = random(&[8], Dtype::Float32, 2);
    let refusal = |x: &Array, update: &Array, weight: &Array, eps: f32| {
        ops::add_rms_norm(x, update, weight, eps)
            .unwrap_err()
            .what()
            .to_owned()
    };
    let half = |array: &Array| array.as_dtype(Dtype::Float16).unwrap();
    let integers = x.as_dtype(Dtype::Int32).unwrap();
    let empty = Array::from_slice::<f32>(&[], &[2, 0]);
    for (message, part) in [
        (refusal(&integers, &x, &weight, 0.0), "x has dtype Int32"),
        (
            refusal(&x, &half(&x), &weight, 0.0),
            "update has dtype Float16; expected Float32",
        ),
        (
            refusal(&x, &x, &half(&weight), 0.0),
            "weight has dtype Float16; expected Float32",
        ),
        (
            refusal(&x, &weight, &weight, 0.0),
            "update has shape [8]; expected [2, 8]",
        ),
        (
            refusal(&x, &x, &x, 0.0),
            "weight has shape [2, 8]; expected [8]",
        ),
        (refusal(&empty, &empty, &empty, 0.0), "x has shape [2, 0]"),
        (refusal(&x, &x, &weight, -1.0), "eps is -1"),
        (refusal(&x, &x, &weight, f32::NAN), "eps is NaN"),
    ] {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}
