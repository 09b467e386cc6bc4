//! Products with trellis weights against `f64` sums over the host decoder's weights.

use std::num::NonZeroUsize;

use half::{bf16, f16};
use mlx_kernels_cpu::trellis::{matmul, matmul_with};
use mlx_kernels_cpu::{Error, Execution, Floats, FloatsMut, Level};
use trellis_codec::{Axis, Contract, Format, Geometry, Layout, decode, interleave};

/// A coded weight with activations.
struct Case {
    geometry: Geometry,
    rows: usize,
    x: Vec<f32>,
    codes: Vec<u32>,
    scales: Vec<f32>,
}

fn case(format: Format, axis: Axis, rows: usize, stored: usize, cols: usize) -> Case {
    let geometry = Geometry::new(format, axis, Layout::Rows, stored, cols).unwrap();
    let mut word = 31 + format.bits();
    let mut next = || {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        word
    };
    let codes = (0..geometry.words()).map(|_| next()).collect();
    let x = (0..rows * geometry.input_features())
        .map(|i| ((73 * i + 19) % 257) as f32 / 31.0 - 4.0)
        .collect();
    let scales = (0..stored)
        .map(|i| [0.5, -1.0, 0.0131, 2.0, 0.0][i % 5])
        .collect();
    Case {
        geometry,
        rows,
        x,
        codes,
        scales,
    }
}

impl Case {
    fn run(&self, execution: Execution) -> Vec<f32> {
        let mut y = vec![f32::NAN; self.rows * self.geometry.output_features()];
        let (x, scales) = ((&self.x[..]).into(), (&self.scales[..]).into());
        let target = FloatsMut::from(&mut y[..]);
        matmul_with(
            execution,
            &self.geometry,
            self.rows,
            x,
            &self.codes,
            scales,
            target,
        )
        .unwrap();
        y
    }

    /// The product in `f64`, and the sum of magnitudes of its terms.
    fn reference(&self) -> Vec<(f64, f64)> {
        let weights = decode(&self.geometry, &self.codes, &self.scales, Contract::Exact).unwrap();
        let (inputs, outputs) = (
            self.geometry.input_features(),
            self.geometry.output_features(),
        );
        let weight = |output: usize, input: usize| match self.geometry.axis() {
            Axis::Input => weights[output * inputs + input],
            Axis::Output => weights[input * outputs + output],
        };
        let mut sums = Vec::new();
        for x in self.x.chunks(inputs.max(1)) {
            for output in 0..outputs {
                let terms = x
                    .iter()
                    .enumerate()
                    .map(|(i, &x)| f64::from(x) * f64::from(weight(output, i)));
                sums.push(terms.fold((0.0, 0.0), |(sum, size), term| {
                    (sum + term, size + term.abs())
                }));
            }
        }
        sums
    }

    fn check(&self, y: &[f32]) {
        for (i, (y, (expected, size))) in y.iter().zip(self.reference()).enumerate() {
            let tolerance = 1e-6 * size + 1e-12;
            let (geometry, rows) = (self.geometry, self.rows);
            assert!(
                (f64::from(*y) - expected).abs() <= tolerance,
                "{geometry:?}, {rows} rows, element {i}: {y} is not {expected}"
            );
        }
    }
}

fn with_threads(threads: usize) -> Execution {
    Execution {
        threads: NonZeroUsize::new(threads).unwrap(),
        ..Execution::default()
    }
}

#[test]
fn every_width_axis_and_level() {
    for bits in 1..=8 {
        let format = Format::new(bits, 12, 256).unwrap();
        for axis in [Axis::Input, Axis::Output] {
            for rows in [1, 4, 7] {
                let case = case(format, axis, rows, 11, 512);
                let best = case.run(Execution::default());
                case.check(&best);
                for level in Level::available() {
                    let y = case.run(Execution {
                        level,
                        ..Execution::default()
                    });
                    assert_eq!(y, best, "{level}, {bits} bits, {axis:?}");
                }
            }
        }
    }
}

#[test]
fn other_blocks_and_state_bits() {
    for (bits, state_bits, block) in [
        (3, 12, 32),
        (3, 12, 192),
        (2, 10, 96),
        (1, 16, 64),
        (8, 16, 128),
        (4, 12, 48),
        (1, 2, 32),
    ] {
        let format = Format::new(bits, state_bits, block).unwrap();
        for axis in [Axis::Input, Axis::Output] {
            let case = case(format, axis, 3, 19, 576 / block * block);
            case.check(&case.run(Execution::default()));
        }
    }
}

#[test]
fn shapes_at_the_edges() {
    let format = Format::new(3, 12, 256).unwrap();
    for stored in [1, 2, 3, 5, 8, 67, 130] {
        for rows in [1, 2, 3, 5, 9, 65] {
            for axis in [Axis::Input, Axis::Output] {
                let case = case(format, axis, rows, stored, 256);
                case.check(&case.run(Execution::default()));
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_in_any_company_and_on_any_threads() {
    let format = Format::new(2, 12, 256).unwrap();
    for axis in [Axis::Input, Axis::Output] {
        let together = case(format, axis, 70, 300, 768);
        let y = together.run(with_threads(1));
        for threads in [2, 3, 16] {
            assert_eq!(together.run(with_threads(threads)), y);
        }
        let (inputs, outputs) = (
            together.geometry.input_features(),
            together.geometry.output_features(),
        );
        for row in [0, 3, 69] {
            let alone = Case {
                rows: 1,
                x: together.x[row * inputs..][..inputs].to_vec(),
                codes: together.codes.clone(),
                scales: together.scales.clone(),
                ..together
            };
            assert_eq!(alone.run(with_threads(2)), y[row * outputs..][..outputs]);
        }
    }
}

#[test]
fn interleaved_words_change_nothing() {
    for bits in [2, 3, 8] {
        let format = Format::new(bits, 12, 256).unwrap();
        let rowwise = case(format, Axis::Output, 5, 37, 1024);
        let y = rowwise.run(Execution::default());
        let (geometry, codes) = interleave(&rowwise.geometry, &rowwise.codes).unwrap();
        assert_eq!(
            Case {
                geometry,
                codes,
                ..rowwise
            }
            .run(Execution::default()),
            y
        );
    }
}

#[test]
fn half_precision_is_rounded_once() {
    let format = Format::new(4, 12, 256).unwrap();
    let mut case = case(format, Axis::Input, 2, 6, 256);
    case.x
        .iter_mut()
        .for_each(|x| *x = bf16::from_f32(*x).to_f32());
    case.scales
        .iter_mut()
        .for_each(|s| *s = f16::from_f32(*s).to_f32());
    let expected = case.run(Execution::default());
    let x: Vec<bf16> = case.x.iter().map(|&x| bf16::from_f32(x)).collect();
    let scales: Vec<f16> = case.scales.iter().map(|&s| f16::from_f32(s)).collect();
    let mut y = vec![bf16::NAN; 12];
    let (floats, target) = (Floats::from(&x[..]), FloatsMut::from(&mut y[..]));
    matmul(
        &case.geometry,
        2,
        floats,
        &case.codes,
        (&scales[..]).into(),
        target,
    )
    .unwrap();
    assert_eq!(
        y,
        expected
            .iter()
            .map(|&y| bf16::from_f32(y))
            .collect::<Vec<_>>()
    );
}

#[test]
fn numbers_that_are_none_stay_in_their_row() {
    let format = Format::new(3, 12, 256).unwrap();
    for axis in [Axis::Input, Axis::Output] {
        let mut case = case(format, axis, 3, 20, 256);
        let clean = case.run(Execution::default());
        let (inputs, outputs) = (
            case.geometry.input_features(),
            case.geometry.output_features(),
        );
        case.x[inputs + 7] = f32::NAN;
        let y = case.run(Execution::default());
        assert!(y[outputs..2 * outputs].iter().all(|y| y.is_nan()));
        assert_eq!(y[..outputs], clean[..outputs]);
        assert_eq!(y[2 * outputs..], clean[2 * outputs..]);
    }
}

#[test]
fn nothing_to_do_and_bad_arguments() {
    let format = Format::new(3, 12, 256).unwrap();
    for axis in [Axis::Input, Axis::Output] {
        assert!(
            case(format, axis, 0, 4, 256)
                .run(Execution::default())
                .is_empty()
        );
        assert!(
            case(format, axis, 2, 0, 256)
                .run(Execution::default())
                .iter()
                .all(|y| *y == 0.0)
        );
    }
    let good = case(format, Axis::Input, 1, 4, 256);
    let run = |x: &[f32], codes: &[u32], scales: &[f32], outputs: usize| {
        let mut y = vec![7.0_f32; outputs];
        let result = matmul(
            &good.geometry,
            1,
            x.into(),
            codes,
            scales.into(),
            (&mut y[..]).into(),
        );
        assert!(y.iter().all(|y| (*y - 7.0).abs() < f32::EPSILON));
        result.unwrap_err()
    };
    let length = |argument, got, expected| Error::Length {
        argument,
        got,
        expected,
    };
    assert_eq!(
        run(&good.x[1..], &good.codes, &good.scales, 4),
        length("x", 255, 256)
    );
    assert_eq!(
        run(&good.x, &good.codes[1..], &good.scales, 4),
        length("codes", 95, 96)
    );
    assert_eq!(
        run(&good.x, &good.codes, &good.scales[1..], 4),
        length("scales", 3, 4)
    );
    assert_eq!(
        run(&good.x, &good.codes, &good.scales, 5),
        length("y", 5, 4)
    );

    let odd = case(Format::new(4, 12, 40).unwrap(), Axis::Input, 1, 1, 40);
    let (x, scales) = ((&odd.x[..]).into(), (&odd.scales[..]).into());
    let mut y = [0.0_f32];
    let result = matmul(&odd.geometry, 1, x, &odd.codes, scales, (&mut y[..]).into());
    assert_eq!(result, Err(Error::TrellisBlock { block: 40 }));
}
