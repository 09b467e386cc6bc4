//! Residual addition with RMS norm, in the simulator.

mod sim;

use integration_tests::golden;
use metal_sim::{DType, OutputSpec, TemplateArg};
use mlx_kernels::shaders::ADD_RMS_NORM;
use sim::random::Random;
use sim::{FLOATS, Tensor, int, round, run, simulator, source, unit_roundoff};

/// Widths at the edges of vectors, simdgroups, threadgroups and rounds.
const WIDTHS: [usize; 14] = [
    1, 3, 4, 5, 127, 128, 129, 1000, 2048, 4095, 4096, 4097, 5120, 8192,
];

/// Residual and normalized, `rows` rows.
fn add_rms_norm(x: &Tensor, update: &Tensor, weight: &Tensor, eps: f32) -> [Vec<f32>; 2] {
    let (width, elements) = (weight.shape[0], x.shape.iter().product::<usize>());
    let threads = (32 * width.div_ceil(128)).min(1024);
    let bits = i32::try_from(eps.to_bits()).expect("eps of at least 0");
    let template = [
        ("T", TemplateArg::DType(x.dtype)),
        ("D", int(width)),
        ("THREADS", int(threads)),
        ("EPS", TemplateArg::Int(bits)),
    ];
    let outputs = [
        OutputSpec::new(&x.shape, x.dtype),
        OutputSpec::new(&x.shape, x.dtype),
    ];
    let grid = [elements / width * threads, 1, 1];
    let kernel = source(&ADD_RMS_NORM);
    let results = run(
        simulator(),
        &kernel,
        &[x, update, weight],
        &outputs,
        &template,
        grid,
        [threads, 1, 1],
        None,
    );
    let results = results.unwrap_or_else(|error| panic!("width {width}, {:?}: {error}", x.dtype));
    [results[0].to_f32(), results[1].to_f32()]
}

/// The same from rows of values.
fn of_values(x: &[f32], update: &[f32], weight: &[f32], eps: f32, dtype: DType) -> [Vec<f32>; 2] {
    let width = weight.len();
    let shape = [x.len() / width, width];
    let tensor = |values, shape: &[usize]| Tensor::floats(values, shape, dtype);
    add_rms_norm(
        &tensor(x, &shape),
        &tensor(update, &shape),
        &tensor(weight, &[width]),
        eps,
    )
}

#[test]
fn golden_cases() {
    let mut cases = 0;
    for case in golden::load("residual_rms_norm") {
        let tensor = |name: &str| Tensor::golden(case.tensor(name));
        let [residual, normalized] = add_rms_norm(
            &tensor("x"),
            &tensor("update"),
            &tensor("weight"),
            case.float("eps") as f32,
        );
        assert_eq!(residual, case.tensor("residual").to_f32(), "{}", case.name);
        let (expected, tolerance) = (
            case.tensor("normalized").to_f32(),
            case.tensor("tol").to_f32(),
        );
        for (i, y) in normalized.iter().enumerate() {
            assert!(
                (y - expected[i]).abs() <= tolerance[i],
                "{}: element {i} is {y}, expected {}",
                case.name,
                expected[i]
            );
        }
        cases += 1;
    }
    assert_eq!(cases, 18);
}

/// Against float64, from the rounded residual.
#[test]
fn float64_reference() {
    let mut random = Random::new(60);
    for (i, width) in WIDTHS.into_iter().enumerate() {
        for dtype in FLOATS {
            let rows = [1, 2, 17][i % 3];
            let mut values = |count: usize| -> Vec<f32> {
                random
                    .normals(count)
                    .into_iter()
                    .map(|v| round(v, dtype))
                    .collect()
            };
            let (x, update, weight) = (values(rows * width), values(rows * width), values(width));
            let eps = 1e-5;
            let [residual, normalized] = of_values(&x, &update, &weight, eps, dtype);
            for (i, r) in residual.iter().enumerate() {
                assert_eq!(
                    *r,
                    round(x[i] + update[i], dtype),
                    "width {width}, {dtype:?}: residual {i}"
                );
            }
            let allowed =
                2.5 * unit_roundoff(dtype) + (8.0 + (width as f64).sqrt()) * (-24f64).exp2();
            for (row, y) in residual
                .chunks_exact(width)
                .zip(normalized.chunks_exact(width))
            {
                let mean = row.iter().map(|&r| f64::from(r).powi(2)).sum::<f64>() / width as f64;
                let inverse = 1.0 / (mean + f64::from(eps)).sqrt();
                for ((&r, &w), &y) in row.iter().zip(&weight).zip(y) {
                    let expected = f64::from(r) * inverse * f64::from(w);
                    // Below that a float16 has fewer bits.
                    if expected.abs() > 1e-4 {
                        let error = (f64::from(y) - expected).abs();
                        assert!(
                            error <= allowed * expected.abs(),
                            "width {width}, {dtype:?}: {y}, expected {expected}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn residual_is_rounded_before_it_is_squared() {
    // 256 + 1 is halfway between two bfloat16 and goes to the even one, 256.
    let [residual, normalized] =
        of_values(&[256.0, 0.0], &[1.0, 16.0], &[1.0, 1.0], 0.0, DType::BF16);
    assert_eq!(residual, [256.0, 16.0]);
    let inverse = (1.0 / f64::midpoint(256.0 * 256.0, 16.0 * 16.0).sqrt()) as f32;
    assert_eq!(
        normalized,
        [
            round(256.0 * inverse, DType::BF16),
            round(16.0 * inverse, DType::BF16)
        ]
    );
}

#[test]
fn scaled_residual_is_rounded_before_the_weight() {
    let mut random = Random::new(61);
    let width = 64;
    let x: Vec<f32> = random
        .normals(width)
        .into_iter()
        .map(|v| round(v, DType::BF16))
        .collect();
    let weight: Vec<f32> = random
        .normals(width)
        .into_iter()
        .map(|v| round(v, DType::BF16))
        .collect();
    let [_, normalized] = of_values(&x, &vec![0.0; width], &weight, 0.0, DType::BF16);
    let mean = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / width as f64;
    let inverse = 1.0 / mean.sqrt();
    let mut differing = 0;
    for i in 0..width {
        let scaled = f64::from(x[i]) * inverse;
        let twice = round(weight[i] * round(scaled as f32, DType::BF16), DType::BF16);
        let once = round((scaled * f64::from(weight[i])) as f32, DType::BF16);
        differing += usize::from(twice != once);
        assert_eq!(normalized[i], twice, "element {i}");
    }
    assert!(differing > 5, "the two ways must be told apart somewhere");
}

#[test]
fn exact_rows() {
    for dtype in FLOATS {
        for width in [5, 128, 4097] {
            let ones = vec![1.0; width];
            for power in [-3, 0, 5] {
                let row = vec![(power as f32).exp2(); width];
                let [residual, normalized] = of_values(&row, &vec![0.0; width], &ones, 0.0, dtype);
                assert_eq!(residual, row);
                let slack = if dtype == DType::F32 {
                    f32::EPSILON
                } else {
                    0.0
                };
                assert!(
                    normalized.iter().all(|y| (y - 1.0).abs() <= slack),
                    "{dtype:?}, width {width}, 2^{power}"
                );
            }
            let opposite = vec![-2.5; width];
            let [residual, normalized] =
                of_values(&vec![2.5; width], &opposite, &ones, 1e-5, dtype);
            assert!(residual.iter().chain(&normalized).all(|&y| y == 0.0));
            let [_, normalized] = of_values(&vec![2.5; width], &opposite, &ones, 0.0, dtype);
            assert!(normalized.iter().all(|y| y.is_nan()), "0 times infinity");
        }
    }
}

#[test]
fn infinities_and_nan_stay_in_their_row() {
    let width = 130;
    let plain = Random::new(62).normals(width);
    let mut rows = [
        plain.clone(),
        plain.clone(),
        plain.clone(),
        vec![1e30; width],
        plain,
    ]
    .concat();
    rows[width + 7] = f32::INFINITY;
    rows[2 * width + 9] = f32::NAN;
    let zeros = vec![0.0; rows.len()];
    let [_, y] = of_values(&rows, &zeros, &vec![1.0; width], 1e-6, DType::F32);
    let row = |i: usize| &y[i * width..(i + 1) * width];
    for (i, value) in row(1).iter().enumerate() {
        assert!(
            if i == 7 {
                value.is_nan()
            } else {
                *value == 0.0
            },
            "element {i} beside an infinity is {value}"
        );
    }
    assert!(row(2).iter().all(|value| value.is_nan()));
    assert!(
        row(3).iter().all(|&value| value == 0.0),
        "squares beyond float32 give zeros"
    );
    assert_eq!(row(0), row(4));
    assert!(row(0).iter().all(|value| value.is_finite()));
}

/// Arrays of fewer than eight elements come in constant memory, which the simulator types apart.
#[test]
fn tiny_arrays() {
    for dtype in FLOATS {
        for (rows, width) in [(1, 1), (1, 7), (3, 2), (2, 7)] {
            let x = vec![3.0; rows * width];
            let [residual, normalized] = of_values(&x, &x, &vec![2.0; width], 0.0, dtype);
            assert!(residual.iter().all(|&r| r == 6.0));
            assert!(
                normalized.iter().all(|y| (y - 2.0).abs() < 1e-6),
                "{dtype:?}: {normalized:?}"
            );
        }
    }
}
