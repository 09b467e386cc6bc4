//! What must hold of every encoding.

use half::f16;
use trellis_codec::{
    Axis, Contract, Encoder, Error, Format, Geometry, Layout, ScaleSearch, SimdLevel, codebook,
    decode_states, packing,
};

/// Numbers from `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn gaussians(&mut self, count: usize) -> Vec<f32> {
        let mut gaussian = || {
            ((-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos())
                as f32
        };
        (0..count).map(|_| gaussian()).collect()
    }
}

fn format(bits: u32) -> Format {
    Format::new(bits, 12, 256).unwrap()
}

fn rows(format: Format, rows: usize, cols: usize) -> Geometry {
    Geometry::new(format, Axis::Input, Layout::Rows, rows, cols).unwrap()
}

/// The relative error of the codes as decoded, not as the encoder reports it.
fn decoded_error(weights: &[f32], encoded: &trellis_codec::Encoded) -> f64 {
    let decoded = encoded.module.decode(Contract::Exact).unwrap();
    let power: f64 = weights.iter().map(|&w| f64::from(w).powi(2)).sum();
    let error: f64 = weights
        .iter()
        .zip(decoded)
        .map(|(w, d)| f64::from(w - d).powi(2))
        .sum();
    error / power
}

#[test]
fn error_on_gaussians_is_bounded_and_falls_with_the_width() {
    let weights = Random(1).gaussians(128 * 1024);
    let bounds = [
        0.2810, 0.0744, 0.0192, 0.0050, 0.00136, 0.0004, 0.00012, 0.00004,
    ];
    let mut last = 1.0;
    for (bits, bound) in (1..).zip(bounds) {
        let geometry = rows(format(bits), 128, 1024);
        let encoded = Encoder::new(format(bits))
            .encode_stored(&geometry, &weights)
            .unwrap();
        let error = decoded_error(&weights, &encoded);
        assert!(error <= bound, "k = {bits}: {error}");
        assert!(
            error < last && error > 0.25_f64.powi(bits as i32),
            "k = {bits}: {error}"
        );
        assert!((error / encoded.distortion.relative() - 1.0).abs() < 1e-4);
        last = error;
    }
}

#[test]
fn searches_pay_for_what_they_cost() {
    let weights = Random(2).gaussians(64 * 1024);
    let geometry = rows(format(4), 64, 1024);
    let error = |search| {
        let encoder = Encoder::new(format(4)).with_search(search);
        encoder
            .encode_stored(&geometry, &weights)
            .unwrap()
            .distortion
            .relative()
    };
    let errors = [
        ScaleSearch::Rms,
        ScaleSearch::Fast,
        ScaleSearch::Balanced,
        ScaleSearch::Thorough,
    ]
    .map(error);
    assert!(errors.is_sorted_by(|a, b| a > b), "{errors:?}");
}

#[test]
fn rows_with_tails_get_larger_scales() {
    let mut random = Random(3);
    let mut weights = random.gaussians(16 * 512);
    weights.iter_mut().step_by(97).for_each(|w| *w *= 5.0);
    let geometry = rows(format(4), 16, 512);
    let error = |search| {
        let encoder = Encoder::new(format(4)).with_search(search);
        encoder
            .encode_stored(&geometry, &weights)
            .unwrap()
            .distortion
            .relative()
    };
    assert!(error(ScaleSearch::Fast) < 0.5 * error(ScaleSearch::Rms));
}

#[test]
fn codes_are_closed_walks_that_decode_to_the_same() {
    let weights = Random(4).gaussians(6 * 768);
    for bits in 1..=8 {
        let geometry = rows(format(bits), 6, 768);
        let encoded = Encoder::new(format(bits))
            .encode_stored(&geometry, &weights)
            .unwrap();
        let states = decode_states(&geometry, encoded.module.codes()).unwrap();
        for block in states.chunks(256) {
            packing::check_path(format(bits), block).unwrap();
        }
        let values = codebook::values(12);
        let scales = encoded.module.scales_f32();
        let expected: Vec<f32> = states
            .iter()
            .enumerate()
            .map(|(i, &s)| values[usize::from(s)] * scales[i / 768])
            .collect();
        assert_eq!(encoded.module.decode(Contract::Exact).unwrap(), expected);
    }
}

#[test]
fn decoded_walks_encode_to_themselves() {
    let mut random = Random(5);
    for bits in 1..=8 {
        let geometry = rows(format(bits), 40, 256);
        let codes: Vec<u32> = (0..geometry.words())
            .map(|_| random.next() as u32)
            .collect();
        let states = decode_states(&geometry, &codes).unwrap();
        let values = codebook::values(12);
        let weights: Vec<f32> = states.iter().map(|&s| values[usize::from(s)]).collect();
        let encoded = Encoder::new(format(bits))
            .encode_with_scales(&geometry, &weights, &[f16::ONE; 40])
            .unwrap();
        assert_eq!(
            encoded.module.decode(Contract::Exact).unwrap(),
            weights,
            "k = {bits}"
        );
        if bits <= 6 {
            assert_eq!(encoded.module.codes(), codes, "k = {bits}");
        }
    }
}

#[test]
fn instruction_sets_and_threads_do_not_change_the_codes() {
    let weights = Random(6).gaussians(9 * 512);
    // Formats of every arrangement of the recursion, at every register width.
    for (bits, state_bits) in [
        (1, 12),
        (2, 12),
        (3, 12),
        (4, 12),
        (5, 12),
        (8, 12),
        (3, 8),
        (2, 5),
        (6, 8),
        (4, 10),
    ] {
        let format = Format::new(bits, state_bits, 256).unwrap();
        let geometry = rows(format, 9, 512);
        let encoder = Encoder::new(format);
        let expected = encoder.encode_stored(&geometry, &weights).unwrap();
        for level in SimdLevel::available() {
            let encoder = encoder.clone().with_simd(level).unwrap();
            assert_eq!(
                encoder.encode_stored(&geometry, &weights).unwrap(),
                expected,
                "{level:?} {format:?}"
            );
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        assert_eq!(
            pool.install(|| encoder.encode_stored(&geometry, &weights))
                .unwrap(),
            expected
        );
    }
}

#[test]
fn a_row_does_not_depend_on_the_rows_beside_it() {
    let weights = Random(7).gaussians(5 * 512);
    let encoder = Encoder::new(format(3));
    let together = encoder
        .encode_stored(&rows(format(3), 5, 512), &weights)
        .unwrap();
    for row in 0..5 {
        let alone = encoder
            .encode_stored(&rows(format(3), 1, 512), &weights[row * 512..][..512])
            .unwrap();
        assert_eq!(
            alone.module.codes(),
            &together.module.codes()[row * 48..][..48]
        );
        assert_eq!(alone.module.scales()[0], together.module.scales()[row]);
    }
}

#[test]
fn axis_zero_is_the_transpose() {
    let (outputs, inputs) = (512, 70);
    let weight = Random(8).gaussians(outputs * inputs);
    let transposed: Vec<f32> = (0..weight.len())
        .map(|i| weight[i % outputs * inputs + i / outputs])
        .collect();
    let encoder = Encoder::new(format(3)).with_search(ScaleSearch::Fast);
    let along_output = encoder
        .encode_weight(&weight, outputs, inputs, Axis::Output, Layout::Rows)
        .unwrap();
    let along_input = encoder
        .encode_weight(&transposed, inputs, outputs, Axis::Input, Layout::Rows)
        .unwrap();
    assert_eq!(along_output.module.codes(), along_input.module.codes());
    assert_eq!(along_output.module.scales(), along_input.module.scales());

    let paired = encoder
        .encode_weight(&weight, outputs, inputs, Axis::Output, Layout::BlockPairs)
        .unwrap();
    assert_eq!(
        paired.module.decode(Contract::Exact),
        along_output.module.decode(Contract::Exact)
    );
    assert_eq!(paired.module.geometry().codes_shape(), [1, 70, 48]);
}

#[test]
fn blocks_of_other_lengths() {
    for (bits, block) in [(3, 192), (3, 32), (2, 64), (1, 96)] {
        let format = Format::new(bits, 12, block).unwrap();
        let weights = Random(9).gaussians(4 * 576);
        let encoded = Encoder::new(format)
            .encode_stored(&rows(format, 4, 576), &weights)
            .unwrap();
        let error = encoded.distortion.relative();
        assert!(
            error < 1.5 * [0.28, 0.075, 0.02][bits as usize - 1],
            "k = {bits}, T = {block}: {error}"
        );
    }
}

#[test]
fn unusual_rows() {
    let format = format(2);
    let encoder = Encoder::new(format);
    let encode = |weights: &[f32]| {
        let encoded = encoder
            .encode_stored(&rows(format, weights.len() / 256, 256), weights)
            .unwrap();
        (
            encoded.module.scales()[0],
            encoded.module.decode(Contract::Exact).unwrap(),
        )
    };
    assert_eq!(encode(&[0.0; 256]).0, f16::ONE);
    assert_eq!(encode(&[1e-12; 256]).0, f16::from_bits(1));
    assert_eq!(encode(&[1e30; 256]).0, f16::MAX);
    let mut spike = [0.0; 256];
    spike[255] = -3.0;
    assert!(encode(&spike).1.iter().all(|w| w.is_finite()));
    let empty = encoder.encode_stored(&rows(format, 0, 0), &[]).unwrap();
    assert_eq!(
        (empty.module.codes().len(), empty.distortion.relative()),
        (0, 0.0)
    );
    let empty = encoder
        .encode_weight(&[], 0, 3, Axis::Output, Layout::Rows)
        .unwrap();
    assert_eq!(empty.module.scales().len(), 3);
}

#[test]
fn bad_arguments_are_refused() {
    let encoder = Encoder::new(format(3));
    let geometry = rows(format(3), 2, 256);
    let weights = vec![0.5; 512];
    let error = encoder.encode_stored(&geometry, &weights[1..]).unwrap_err();
    assert_eq!(
        error,
        Error::Length {
            what: "the weight",
            found: 511,
            expected: 512
        }
    );
    let other = rows(format(2), 2, 256);
    assert!(matches!(
        encoder.encode_stored(&other, &weights),
        Err(Error::Format { .. })
    ));
    let partial = encoder.encode_weight(&weights, 2, 255, Axis::Input, Layout::Rows);
    assert_eq!(
        partial,
        Err(Error::PartialBlock {
            cols: 255,
            block: 256
        })
    );
    let scales = encoder.encode_with_scales(&geometry, &weights, &[f16::ONE, f16::ZERO]);
    assert_eq!(scales, Err(Error::BadScale { row: 1, value: 0.0 }));
    let scales = encoder.encode_with_scales(&geometry, &weights, &[f16::ONE]);
    assert_eq!(
        scales,
        Err(Error::Length {
            what: "the array of scales",
            found: 1,
            expected: 2
        })
    );
    for bad in [f32::INFINITY, f32::NEG_INFINITY] {
        let mut weights = weights.clone();
        weights[300] = bad;
        let error = encoder.encode_stored(&geometry, &weights).unwrap_err();
        assert_eq!(
            error,
            Error::NotFinite {
                what: "the weight",
                row: 1,
                col: 44,
                value: bad
            }
        );
    }
    let mut weights = weights;
    weights[3] = f32::NAN;
    assert!(matches!(
        encoder.encode_stored(&geometry, &weights),
        Err(Error::NotFinite { row: 0, col: 3, .. })
    ));
    let missing = if cfg!(target_arch = "aarch64") {
        SimdLevel::Avx2
    } else {
        SimdLevel::Neon
    };
    assert_eq!(
        encoder.with_simd(missing).unwrap_err(),
        Error::SimdLevel { level: missing }
    );
}
