//! Residual addition with RMS norm: places of rounding, exact cases, refusals.

mod common;

use common::{Elements, Random};
use half::bf16;
use mlx_kernels_cpu::norm::add_rms_norm;
use mlx_kernels_cpu::{Error, FloatType, Floats};

const TYPES: [FloatType; 3] = [FloatType::F32, FloatType::F16, FloatType::Bf16];

/// Residual and norm, widened.
fn norm(
    x: &Elements,
    update: &Elements,
    weight: &Elements,
    eps: f32,
) -> Result<(Vec<f32>, Vec<f32>), Error> {
    let (mut residual, mut normalized) = (x.clone(), x.clone());
    add_rms_norm(
        x.borrow(),
        update.borrow(),
        weight.borrow(),
        eps,
        residual.borrow_mut(),
        normalized.borrow_mut(),
    )?;
    Ok((residual.wide(), normalized.wide()))
}

#[test]
fn the_residual_is_rounded_before_it_is_squared() {
    let rounded = |values: &[f32]| Elements::rounded(FloatType::Bf16, values);
    let (residual, normalized) =
        norm(&rounded(&[256.0]), &rounded(&[1.0]), &rounded(&[1.0]), 0.0).expect("valid arrays");
    assert_eq!((residual[0], normalized[0]), (256.0, 1.0));
}

#[test]
fn the_norm_is_rounded_before_the_weight() {
    let mut differ = 0;
    for step in 0..64 {
        let x = [1.0, 1.0 + step as f32 / 128.0];
        let weight = bf16::from_f32(1.0 + 37.0 / 128.0);
        let rounded = |values: &[f32]| Elements::rounded(FloatType::Bf16, values);
        let (_, y) = norm(
            &rounded(&x),
            &rounded(&[0.0; 2]),
            &rounded(&[weight.to_f32(); 2]),
            0.0,
        )
        .expect("valid arrays");
        let factor = 1.0 / f32::midpoint(x[0] * x[0], x[1] * x[1]).sqrt();
        let twice = bf16::from_f32(weight.to_f32() * bf16::from_f32(x[1] * factor).to_f32());
        let once = bf16::from_f32(weight.to_f32() * (x[1] * factor));
        assert_eq!(y[1], twice.to_f32());
        differ += usize::from(once != twice);
    }
    assert!(differ > 0, "no case shows the order of rounding");
}

#[test]
fn constant_rows_and_zeros_are_exact() {
    for float_type in TYPES {
        for size in [1, 3, 16, 127, 128, 129, 1000, 4097] {
            let fill = |value: f32| Elements::rounded(float_type, &vec![value; 2 * size]);
            let one = Elements::rounded(float_type, &vec![1.0; size]);
            let (residual, y) = norm(&fill(3.0), &fill(1.0), &one, 0.0).expect("valid arrays");
            assert!(residual.iter().all(|&r| r == 4.0) && y.iter().all(|&y| y == 1.0));
            let (residual, y) = norm(&fill(3.0), &fill(-3.0), &one, 1e-5).expect("valid arrays");
            assert!(residual.iter().chain(&y).all(|&value| value == 0.0));
            let (_, y) = norm(&fill(3.0), &fill(-3.0), &one, 0.0).expect("valid arrays");
            assert!(y.iter().all(|y| y.is_nan()));
        }
    }
}

#[test]
fn infinity_and_nan_stay_in_their_rows() {
    let size = 20;
    let mut x = vec![1.0; 3 * size];
    (x[4], x[size + 4]) = (f32::INFINITY, f32::NAN);
    let zeros = Elements::F32(vec![0.0; 3 * size]);
    let weight = Elements::F32(vec![1.0; size]);
    let (_, y) = norm(&Elements::F32(x), &zeros, &weight, 0.0).expect("valid arrays");
    for i in 0..size {
        assert!(if i == 4 { y[i].is_nan() } else { y[i] == 0.0 });
        assert!(y[size + i].is_nan());
        assert_eq!(y[2 * size + i], 1.0);
    }
}

#[test]
fn errors_are_within_a_few_units() {
    for float_type in TYPES {
        // Enough rows to be shared out.
        for (rows, size) in [(1, 5120), (64, 1000)] {
            let mut random = Random::new(7);
            let mut any = |count: usize| {
                let values: Vec<f32> = (0..count).map(|_| random.unit()).collect();
                Elements::rounded(float_type, &values)
            };
            let (x, update, weight) = (any(rows * size), any(rows * size), any(size));
            let (residual, y) = norm(&x, &update, &weight, 1e-6).expect("valid arrays");
            let weight = weight.wide();
            let unit = match float_type {
                FloatType::F32 => 2.0_f64.powi(-24),
                FloatType::F16 => 2.0_f64.powi(-11),
                FloatType::Bf16 => 2.0_f64.powi(-8),
            };
            let noise = (8.0 + (size as f64).sqrt()) * 2.0_f64.powi(-24);
            for (residual, y) in residual.chunks_exact(size).zip(y.chunks_exact(size)) {
                let square = |value: &f32| f64::from(*value) * f64::from(*value);
                let mean = residual.iter().map(square).sum::<f64>() / size as f64;
                let factor = 1.0 / (mean + f64::from(1e-6_f32)).sqrt();
                for i in 0..size {
                    let exact = f64::from(weight[i]) * f64::from(residual[i]) * factor;
                    // Below the smallest normal half the step is fixed.
                    let bound = exact.abs() * (2.5 * unit + noise) + 2.0_f64.powi(-24);
                    assert!(
                        (f64::from(y[i]) - exact).abs() <= bound,
                        "{float_type}, {i}"
                    );
                }
            }
        }
    }
}

#[test]
fn arguments_are_checked() {
    let floats = |count: usize| Elements::F32(vec![1.0; count]);
    let refused = |x: usize, update: usize, weight: usize, eps: f32| {
        norm(&floats(x), &floats(update), &floats(weight), eps).expect_err("a refusal")
    };
    assert_eq!(refused(0, 0, 0, 0.0), Error::Empty { argument: "weight" });
    assert_eq!(
        refused(7, 7, 2, 0.0),
        Error::Rows {
            argument: "x",
            got: 7,
            width: 2
        }
    );
    let short = Error::Length {
        argument: "update",
        got: 4,
        expected: 6,
    };
    assert_eq!(refused(6, 4, 2, 0.0), short);
    for eps in [-1.0, f32::NAN] {
        assert!(matches!(
            refused(6, 6, 2, eps),
            Error::Negative {
                argument: "eps",
                ..
            }
        ));
    }
    let halves = Elements::rounded(FloatType::F16, &[1.0; 2]);
    let mixed = norm(&floats(4), &floats(4), &halves, 0.0).expect_err("two types");
    assert_eq!(
        mixed.to_string(),
        "weight is float16; it must be float32, as x is"
    );
    let mut short = [0.0; 3];
    let x = Floats::F32(&[0.0; 4]);
    let result = add_rms_norm(
        x,
        x,
        Floats::F32(&[1.0; 2]),
        0.0,
        (&mut short[..]).into(),
        (&mut [0.0_f32; 4][..]).into(),
    );
    assert_eq!(
        result,
        Err(Error::Length {
            argument: "residual",
            got: 3,
            expected: 4
        })
    );
    assert_eq!(
        norm(&floats(0), &floats(0), &floats(2), 0.0),
        Ok((vec![], vec![]))
    );
}
