//! Error feedback from a Hessian, and the factor it uses.

use trellis_codec::{
    Axis, Contract, Encoder, Error, FeedbackLimits, Format, Hessian, HessianFactor, Layout,
    ScaleSearch,
};

const INPUTS: usize = 128;
const OUTPUTS: usize = 64;

/// Gaussian-like numbers: the sum of four uniform ones, of unit variance.
fn noise(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f64::from(state >> 8) / f64::from(1 << 24) - 0.5) as f32
    };
    (0..count)
        .map(|_| 3_f32.sqrt() * (uniform() + uniform() + uniform() + uniform()))
        .collect()
}

/// Inputs whose features share a few directions.
fn correlated(samples: usize) -> Vec<f32> {
    let (directions, strengths) = (noise(2, 4 * INPUTS), noise(3, samples * 4));
    let mut inputs = noise(4, samples * INPUTS);
    for (i, x) in inputs.iter_mut().enumerate() {
        let (sample, feature) = (i / INPUTS, i % INPUTS);
        *x = 0.3 * *x
            + (0..4)
                .map(|d| strengths[sample * 4 + d] * directions[d * INPUTS + feature])
                .sum::<f32>();
    }
    inputs
}

fn encoder() -> Encoder {
    Encoder::new(Format::new(2, 12, 32).unwrap()).with_search(ScaleSearch::Fast)
}

fn factor(inputs: &[f32]) -> HessianFactor {
    let mut hessian = Hessian::new(INPUTS).unwrap();
    hessian.add(inputs).unwrap();
    hessian.factor(32, 0.01).unwrap()
}

/// Weights as `[outputs, inputs]` whatever the axis they are stored along.
fn decoded(module: &trellis_codec::TrellisModule) -> Vec<f32> {
    let stored = module.decode(Contract::Exact).unwrap();
    match module.geometry().axis() {
        Axis::Input => stored,
        Axis::Output => (0..stored.len())
            .map(|i| stored[i % INPUTS * OUTPUTS + i / INPUTS])
            .collect(),
    }
}

/// Squared error of the layer's output.
fn output_error(weight: &[f32], decoded: &[f32], inputs: &[f32]) -> f64 {
    let mut total = 0.0;
    for x in inputs.chunks(INPUTS) {
        for (w, d) in weight.chunks(INPUTS).zip(decoded.chunks(INPUTS)) {
            let error: f32 = w.iter().zip(d).zip(x).map(|((w, d), x)| (w - d) * x).sum();
            total += f64::from(error).powi(2);
        }
    }
    total
}

#[test]
fn the_factor_is_the_block_ldl_of_the_damped_hessian() {
    let inputs = correlated(200);
    let factor = factor(&inputs);
    let n = INPUTS;
    let mut h = vec![0.0_f64; n * n];
    for x in inputs.chunks(n) {
        for i in 0..n {
            for j in 0..n {
                h[i * n + j] += f64::from(x[i]) * f64::from(x[j]);
            }
        }
    }
    let mean = (0..n).map(|i| h[i * n + i]).sum::<f64>() / n as f64;
    (0..n).for_each(|i| h[i * n + i] += 0.01 * mean);
    // L^-1 H L^-T must be block diagonal: eliminate with the unit block-lower factor by forward substitution.
    let l = |i: usize, j: usize| {
        if j / 32 < i / 32 {
            f64::from(factor.elements()[i * n + j])
        } else {
            0.0
        }
    };
    let forward = |matrix: &mut Vec<f64>| {
        for i in 0..n {
            for p in 0..i / 32 * 32 {
                let f = l(i, p);
                for j in 0..n {
                    matrix[i * n + j] -= f * matrix[p * n + j];
                }
            }
        }
    };
    forward(&mut h);
    let mut transposed: Vec<f64> = (0..n * n).map(|i| h[i % n * n + i / n]).collect();
    forward(&mut transposed);
    for i in 0..n {
        for j in (0..n).filter(|j| j / 32 != i / 32) {
            assert!(
                transposed[i * n + j].abs() < 1e-3 * mean,
                "element {i}, {j}"
            );
        }
    }
}

#[test]
fn statistics_do_not_depend_on_how_inputs_are_batched() {
    let inputs = correlated(60);
    let mut batched = Hessian::new(INPUTS).unwrap();
    inputs
        .chunks(7 * INPUTS)
        .for_each(|batch| batched.add(batch).unwrap());
    assert_eq!((batched.samples(), batched.features()), (60, INPUTS));
    let (a, b) = (factor(&inputs), batched.factor(32, 0.01).unwrap());
    for (a, b) in a.elements().iter().zip(b.elements()) {
        assert!((a - b).abs() < 1e-3);
    }
}

#[test]
fn output_error_falls_by_half_on_both_axes() {
    let weight = noise(1, OUTPUTS * INPUTS);
    let inputs = correlated(300);
    let factor = factor(&inputs);
    for axis in [Axis::Input, Axis::Output] {
        let plain = encoder()
            .encode_weight(&weight, OUTPUTS, INPUTS, axis, Layout::Rows)
            .unwrap();
        let limits = FeedbackLimits::default();
        let with = encoder()
            .encode_with_feedback(
                &weight,
                OUTPUTS,
                INPUTS,
                axis,
                Layout::Rows,
                &factor,
                limits,
            )
            .unwrap();
        assert!(!with.tripped);
        assert_eq!(with.encoded.module.scales(), plain.module.scales());
        let error = |module| output_error(&weight, &decoded(module), &inputs);
        let (before, after) = (error(&plain.module), error(&with.encoded.module));
        assert!(after < 0.5 * before, "{axis:?}: {after} against {before}");
        let weight_error: f64 = weight
            .iter()
            .zip(decoded(&with.encoded.module))
            .map(|(w, d)| f64::from(w - d).powi(2))
            .sum();
        assert!((weight_error / with.encoded.distortion.error - 1.0).abs() < 1e-4);
    }
}

#[test]
fn a_zero_factor_is_plain_encoding() {
    let weight = noise(1, OUTPUTS * INPUTS);
    let zero = HessianFactor::new(INPUTS, 32, vec![0.0; INPUTS * INPUTS]).unwrap();
    for (axis, layout) in [
        (Axis::Input, Layout::Rows),
        (Axis::Output, Layout::Rows),
        (Axis::Output, Layout::BlockPairs),
    ] {
        for search in [
            ScaleSearch::Rms,
            ScaleSearch::Balanced,
            ScaleSearch::Thorough,
        ] {
            let encoder = encoder().with_search(search);
            let plain = encoder
                .encode_weight(&weight, OUTPUTS, INPUTS, axis, layout)
                .unwrap();
            let limits = FeedbackLimits::default();
            let with = encoder
                .encode_with_feedback(&weight, OUTPUTS, INPUTS, axis, layout, &zero, limits)
                .unwrap();
            assert!(!with.tripped);
            assert_eq!(with.encoded.module, plain.module);
        }
    }
}

#[test]
fn factors_of_any_size_are_survived() {
    let weight = noise(1, OUTPUTS * INPUTS);
    let factor = |size: f32| {
        let below = |i: usize| {
            if i % INPUTS / 32 < i / INPUTS / 32 {
                size
            } else {
                0.0
            }
        };
        let signs = noise(9, INPUTS * INPUTS);
        let elements = signs
            .iter()
            .enumerate()
            .map(|(i, s)| below(i) * s.signum())
            .collect();
        HessianFactor::new(INPUTS, 32, elements).unwrap()
    };
    let encode = |size| {
        let limits = FeedbackLimits::default();
        encoder()
            .encode_with_feedback(
                &weight,
                OUTPUTS,
                INPUTS,
                Axis::Input,
                Layout::Rows,
                &factor(size),
                limits,
            )
            .unwrap()
    };
    let plain = encoder()
        .encode_weight(&weight, OUTPUTS, INPUTS, Axis::Input, Layout::Rows)
        .unwrap();
    let small = encode(0.02);
    assert!(!small.tripped);
    assert_ne!(small.encoded.module.codes(), plain.module.codes());
    assert_eq!(small.encoded.module.scales(), plain.module.scales());
    assert!(small.encoded.distortion.relative() < 2.0 * plain.distortion.relative());
    for size in [1e4, f32::MAX] {
        let large = encode(size);
        assert!(large.tripped);
        assert_eq!(large.encoded, plain);
    }
}

#[test]
fn features_that_are_never_seen_do_not_matter() {
    let mut inputs = correlated(50);
    inputs.chunks_mut(INPUTS).for_each(|x| x[40] = 0.0);
    let factor = factor(&inputs);
    assert!(
        factor.elements()[40 * INPUTS..41 * INPUTS]
            .iter()
            .all(|f| *f == 0.0)
    );
    let nothing = Hessian::new(INPUTS).unwrap().factor(32, 0.01).unwrap();
    assert!(nothing.elements().iter().all(|f| *f == 0.0));
}

#[test]
fn a_factor_survives_a_file() {
    let factor = factor(&correlated(50));
    let bytes = safetensors::serialize([("L", &factor)], None).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(HessianFactor::read(&file, 32).unwrap(), factor);
    let other = safetensors::serialize([("M", &factor)], None).unwrap();
    let other = safetensors::SafeTensors::deserialize(&other).unwrap();
    assert!(matches!(
        HessianFactor::read(&other, 32),
        Err(Error::MissingTensor { tensor: "L", .. })
    ));
}

#[test]
fn bad_arguments_are_refused() {
    let weight = noise(1, OUTPUTS * INPUTS);
    let encode = |inputs: usize, factor: &HessianFactor, limits| {
        let outputs = weight.len() / inputs;
        encoder().encode_with_feedback(
            &weight,
            outputs,
            inputs,
            Axis::Input,
            Layout::Rows,
            factor,
            limits,
        )
    };
    let zero = |n: usize, block| HessianFactor::new(n, block, vec![0.0; n * n]).unwrap();
    let limits = FeedbackLimits::default();
    let wrong_size = encode(INPUTS, &zero(96, 32), limits);
    assert_eq!(
        wrong_size,
        Err(Error::FactorSize {
            found: 96,
            expected: INPUTS
        })
    );
    assert_eq!(
        encode(INPUTS, &zero(INPUTS, 16), limits),
        Err(Error::FactorBlock {
            found: 16,
            expected: 32
        })
    );
    let little = FeedbackLimits {
        memory: 1000,
        ..limits
    };
    assert!(matches!(
        encode(INPUTS, &zero(INPUTS, 32), little),
        Err(Error::Memory { ceiling: 1000, .. })
    ));
    assert!(matches!(
        HessianFactor::new(3, 2, vec![0.0; 9]),
        Err(Error::PartialBlock { cols: 3, block: 2 })
    ));
    assert!(matches!(
        HessianFactor::new(3, 3, vec![0.0; 8]),
        Err(Error::Length { .. })
    ));
    assert!(matches!(
        HessianFactor::new(1, 1, vec![f32::NAN]),
        Err(Error::NotFinite { .. })
    ));

    let mut hessian = Hessian::new(INPUTS).unwrap();
    assert!(matches!(
        hessian.add(&weight[1..]),
        Err(Error::Length { .. })
    ));
    assert!(matches!(
        hessian.add(&[f32::INFINITY; INPUTS]),
        Err(Error::NotFinite { .. })
    ));
    assert!(matches!(
        hessian.factor(48, 0.01),
        Err(Error::PartialBlock { .. })
    ));
    hessian.add(&noise(5, 3 * INPUTS)).unwrap();
    assert!(matches!(
        hessian.factor(32, 0.0),
        Err(Error::NotPositiveDefinite { .. })
    ));
    assert!(matches!(
        Hessian::new(usize::MAX),
        Err(Error::TooLarge { .. })
    ));
}
