//! Products with affine weights: exact cases, error bounds, invariance, refusals.

mod common;

use common::{Elements, Random, Weight, bits, execution, product};
use half::f16;
use mlx_kernels_cpu::affine::{Problem, matmul, matmul_with};
use mlx_kernels_cpu::{Error, Execution, FloatType, Floats, Level, reference};
use proptest::prelude::*;

const WIDTHS: [usize; 6] = [2, 3, 4, 5, 6, 8];
const GROUPS: [usize; 3] = [32, 64, 128];
const TYPES: [FloatType; 3] = [FloatType::F32, FloatType::F16, FloatType::Bf16];

/// Each format, at each level.
fn formats() -> impl Iterator<Item = (Level, usize, usize)> {
    Level::available().into_iter().flat_map(|level| {
        WIDTHS
            .into_iter()
            .flat_map(move |bits| GROUPS.map(|group| (level, bits, group)))
    })
}

#[test]
fn an_identity_reads_every_weight() {
    for (level, width, group) in formats() {
        let k = 3 * group;
        let problem = Problem::new(k, 5, k, width, group).expect("a valid problem");
        let weight = Weight::random(&problem, FloatType::F32, &mut Random::new(1));
        let identity: Vec<f32> = (0..k * k)
            .map(|i| f32::from(u8::from(i / k == i % k)))
            .collect();
        let y = product(
            execution(level, 1),
            &problem,
            Floats::F32(&identity),
            &weight,
        );
        let (scales, biases) = (weight.scales.wide(), weight.biases.wide());
        for n in 0..5 {
            let words = &weight.words[n * problem.words_per_row()..];
            for (position, code) in reference::affine::unpack(words, width, k)
                .iter()
                .enumerate()
            {
                let parameters = n * 3 + position / group;
                let (scale, bias) = (scales[parameters], biases[parameters]);
                let expected = match level {
                    Level::Portable => scale * *code as f32 + bias,
                    _ => scale.mul_add(*code as f32, bias),
                };
                let y = y[position * 5 + n];
                assert_eq!(
                    y, expected,
                    "{level}, {width} bits, group {group}, {n}, {position}"
                );
            }
        }
    }
}

#[test]
fn whole_numbers_are_exact() {
    for (level, width, group) in formats() {
        let problem = Problem::new(2, 7, 2 * group, width, group).expect("a valid problem");
        let mut random = Random::new(2);
        let mut weight = Weight::random(&problem, FloatType::F32, &mut random);
        // Scale 1 and -1 with the bias that makes every weight a code, forwards or backwards.
        let groups = 7 * problem.groups_per_row();
        let top = ((1 << width) - 1) as f32;
        for (scale, bias) in [(1.0, 0.0), (-1.0, top)] {
            weight.scales = Elements::F32(vec![scale; groups]);
            weight.biases = Elements::F32(vec![bias; groups]);
            let x: Vec<f32> = (0..2 * problem.k())
                .map(|_| (random.word() % 9) as f32)
                .collect();
            let y = product(execution(level, 1), &problem, Floats::F32(&x), &weight);
            let (scales, biases) = (weight.scales.borrow(), weight.biases.borrow());
            let exact =
                reference::affine::matmul(&problem, Floats::F32(&x), &weight.words, scales, biases);
            for (y, exact) in y.into_iter().zip(exact.values) {
                assert_eq!(f64::from(y), exact, "{level}, {width} bits, group {group}");
            }
        }
    }
}

#[test]
fn weights_are_not_rounded_to_the_activations_type() {
    for level in Level::available() {
        let problem = Problem::new(1, 1, 32, 4, 32).expect("a valid problem");
        let words = reference::affine::pack(&(0..32).map(|i| i % 16).collect::<Vec<_>>(), 4);
        // Weights 1 + q / 8192: in half precision they would be 1 or 1 + 1 / 1024.
        let step = 2.0_f32.powi(-13);
        let scales = [f16::from_f32(step)];
        let biases = [f16::ONE];
        let mut x = [f16::ZERO; 32];
        (x[13], x[2]) = (f16::ONE, f16::NEG_ONE);
        let mut y = [f16::ZERO];
        let (x, scales, biases) = ((&x[..]).into(), (&scales[..]).into(), (&biases[..]).into());
        let y_mut = (&mut y[..]).into();
        matmul_with(
            execution(level, 1),
            &problem,
            x,
            &words,
            scales,
            biases,
            y_mut,
        )
        .expect("arrays that fit");
        assert_eq!(y[0].to_f32(), 11.0 * step, "{level}");
    }
}

#[test]
fn a_row_has_the_same_bits_beside_any_rows_on_any_threads() {
    // Wide enough to be shared out, with a width of more than one chunk and not whole tiles.
    const ROWS: usize = 65;
    for level in Level::available() {
        for (width, group, n, k) in [(4, 64, 203, 1216), (3, 32, 41, 544), (8, 128, 33, 640)] {
            let all = Problem::new(ROWS, n, k, width, group).expect("a valid problem");
            let mut random = Random::new(3);
            let weight = Weight::random(&all, FloatType::Bf16, &mut random);
            let mut x: Vec<f32> = (0..ROWS * k).map(|_| random.unit()).collect();
            x[5 * k + 7] = f32::NAN;
            x[9 * k + 1] = f32::INFINITY;
            let one = Problem::new(1, n, k, width, group).expect("a valid problem");
            let alone: Vec<u32> = x
                .chunks_exact(k)
                .flat_map(|row| {
                    bits(&product(
                        execution(level, 1),
                        &one,
                        Floats::F32(row),
                        &weight,
                    ))
                })
                .collect();
            for rows in [
                1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 32, 33, 63, 64, 65,
            ] {
                let problem = Problem::new(rows, n, k, width, group).expect("a valid problem");
                let first = ROWS - rows;
                for threads in [1, 2, 7] {
                    let x = Floats::F32(&x[first * k..]);
                    let y = bits(&product(execution(level, threads), &problem, x, &weight));
                    for (i, (y, alone)) in y.iter().zip(&alone[first * n..]).enumerate() {
                        let both_nan =
                            f32::from_bits(*y).is_nan() && f32::from_bits(*alone).is_nan();
                        assert!(
                            y == alone || both_nan,
                            "{level}, {width} bits, {rows} rows, {threads} threads, element {i}",
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn levels_with_fused_multiply_add_agree() {
    let levels: Vec<_> = Level::available()
        .into_iter()
        .filter(|&level| level != Level::Portable)
        .collect();
    for width in WIDTHS {
        let problem = Problem::new(7, 13, 640, width, 64).expect("a valid problem");
        let mut random = Random::new(4);
        let weight = Weight::random(&problem, FloatType::F16, &mut random);
        let x: Vec<f32> = (0..7 * 640).map(|_| random.unit()).collect();
        let results: Vec<_> = levels
            .iter()
            .map(|&level| product(execution(level, 1), &problem, Floats::F32(&x), &weight))
            .collect();
        for pair in results.windows(2) {
            assert_eq!(bits(&pair[0]), bits(&pair[1]), "{width} bits");
        }
    }
}

#[test]
fn no_rows_give_nothing() {
    let problem = Problem::new(0, 3, 64, 4, 64).expect("a valid problem");
    let weight = Weight::random(&problem, FloatType::F32, &mut Random::new(5));
    assert!(product(Execution::default(), &problem, Floats::F32(&[]), &weight).is_empty());
}

#[test]
fn extents_and_formats_are_checked() {
    assert_eq!(Problem::new(1, 1, 64, 7, 64), Err(Error::Bits { got: 7 }));
    assert_eq!(
        Problem::new(1, 1, 64, 4, 16),
        Err(Error::GroupSize { got: 16 })
    );
    let odd = Error::InnerWidth {
        k: 96,
        group_size: 64,
    };
    assert_eq!(
        odd.to_string(),
        "k is 96; it must be a positive multiple of group_size, 64"
    );
    assert_eq!(Problem::new(1, 1, 96, 4, 64), Err(odd));
    assert!(matches!(
        Problem::new(1, 1, 0, 4, 64),
        Err(Error::InnerWidth { k: 0, .. })
    ));
    assert_eq!(
        Problem::new(1, 0, 64, 4, 64),
        Err(Error::Empty { argument: "n" })
    );
    let huge = usize::MAX / 2 / 32 * 32;
    assert!(matches!(
        Problem::new(8, 1, huge, 4, 32),
        Err(Error::TooLarge { argument: "x", .. })
    ));
    assert!(matches!(
        Problem::new(0, 8, huge, 4, 32),
        Err(Error::TooLarge { argument: "w", .. })
    ));
}

#[test]
fn arrays_are_checked() {
    let problem = Problem::new(2, 3, 64, 4, 64).expect("a valid problem");
    let (x, w, groups) = (vec![0.0_f32; 128], vec![0_u32; 24], vec![0.0_f32; 3]);
    let call = |x: &[f32], w: &[u32], scales: &[f32], biases: Floats<'_>, y: usize| {
        let mut y = vec![1.0_f32; y];
        let result = matmul(
            &problem,
            x.into(),
            w,
            scales.into(),
            biases,
            (&mut y[..]).into(),
        );
        assert!(
            result.is_ok() || y.iter().all(|&y| y == 1.0),
            "a refused call wrote to y"
        );
        result
    };
    let length = |argument, got, expected| {
        Err(Error::Length {
            argument,
            got,
            expected,
        })
    };
    let f32s = Floats::F32(&groups);
    assert_eq!(call(&x, &w, &groups, f32s, 6), Ok(()));
    assert_eq!(call(&x[1..], &w, &groups, f32s, 6), length("x", 127, 128));
    assert_eq!(call(&x, &w[1..], &groups, f32s, 6), length("w", 23, 24));
    assert_eq!(call(&x, &w, &groups[1..], f32s, 6), length("scales", 2, 3));
    assert_eq!(
        call(&x, &w, &groups, Floats::F32(&[]), 6),
        length("biases", 0, 3)
    );
    assert_eq!(call(&x, &w, &groups, f32s, 5), length("y", 5, 6));
    let halves = [f16::ZERO; 3];
    let mixed = call(&x, &w, &groups, Floats::F16(&halves), 6).expect_err("two types");
    assert_eq!(
        mixed.to_string(),
        "biases is float16; it must be float32, as scales is"
    );
}

#[test]
fn a_level_of_another_machine_is_refused() {
    let problem = Problem::new(1, 1, 32, 4, 32).expect("a valid problem");
    let missing = Level::ALL.into_iter().find(|level| !level.is_available());
    let level = missing.expect("no machine has both AVX and NEON");
    let (x, one) = ([0.0_f32; 32], [0.0_f32]);
    let mut y = [0.0_f32];
    let (x, one) = (Floats::F32(&x), Floats::F32(&one));
    let y = (&mut y[..]).into();
    let result = matmul_with(execution(level, 1), &problem, x, &[0; 4], one, one, y);
    assert_eq!(
        result,
        Err(Error::Level {
            got: level,
            available: Level::available()
        })
    );
}

/// A problem of any format whose extents are small, with its seed and element types.
fn any_problem() -> impl Strategy<Value = (Problem, u64, FloatType, FloatType)> {
    let format = (
        prop::sample::select(&WIDTHS[..]),
        prop::sample::select(&GROUPS[..]),
    );
    let extents = (1..20_usize, 1..40_usize, 1..12_usize);
    let types = (
        prop::sample::select(&TYPES[..]),
        prop::sample::select(&TYPES[..]),
    );
    (format, extents, any::<u64>(), types).prop_map(
        |((width, group), (rows, n, groups), seed, (x, scales))| {
            let problem = Problem::new(rows, n, groups * group, width, group);
            (problem.expect("a valid problem"), seed, x, scales)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn errors_are_bounded((problem, seed, x_type, scale_type) in any_problem()) {
        let mut random = Random::new(seed);
        let weight = Weight::random(&problem, scale_type, &mut random);
        let x: Vec<f32> = (0..problem.rows() * problem.k()).map(|_| random.unit()).collect();
        let x = Elements::rounded(x_type, &x);
        let exact = reference::affine::matmul(
            &problem,
            x.borrow(),
            &weight.words,
            weight.scales.borrow(),
            weight.biases.borrow(),
        );
        for level in Level::available() {
            let y = product(execution(level, 2), &problem, x.borrow(), &weight);
            for (i, y) in y.into_iter().enumerate() {
                let (exact, magnitude) = (exact.values[i], exact.magnitudes[i]);
                let bound = 2.0_f64.powi(-24)
                    * (exact.abs() + (16.0 + (problem.k() as f64).sqrt()) * magnitude);
                prop_assert!((f64::from(y) - exact).abs() <= bound, "{level}, element {i}");
            }
        }
    }
}

#[test]
fn products_taken_together_are_those_taken_alone_or_none() {
    use mlx_kernels_cpu::affine::{Product, matmuls};
    let problems = [
        (3, 33, 64, 4),
        (1, 300, 128, 3),
        (0, 5, 64, 8),
        (7, 576, 576, 4),
    ]
    .map(|(rows, n, k, bits)| Problem::new(rows, n, k, bits, 32).expect("a valid problem"));
    let mut random = Random::new(11);
    let weights = problems.map(|problem| Weight::random(&problem, FloatType::F32, &mut random));
    let xs = problems.map(|problem| -> Vec<f32> {
        (0..problem.rows() * problem.k())
            .map(|_| random.unit())
            .collect()
    });
    let mut ys = problems.map(|problem| vec![f32::NAN; problem.rows() * problem.n()]);
    let run = |ys: &mut [Vec<f32>; 4], short: usize| {
        let mut products: Vec<Product<'_>> = ys
            .iter_mut()
            .enumerate()
            .map(|(i, y)| Product {
                problem: problems[i],
                x: xs[i][..].into(),
                w: &weights[i].words,
                scales: weights[i].scales.borrow(),
                biases: weights[i].biases.borrow(),
                y: (&mut y[..problems[i].rows() * problems[i].n() - short * (i / 3)]).into(),
            })
            .collect();
        matmuls(&mut products)
    };
    assert!(matches!(
        run(&mut ys, 1),
        Err(Error::Length { argument: "y", .. })
    ));
    assert!(
        ys.iter().flatten().all(|y| y.is_nan()),
        "written before all was checked"
    );
    run(&mut ys, 0).expect("arrays that fit");
    for i in 0..4 {
        let alone = product(
            Execution::default(),
            &problems[i],
            xs[i][..].into(),
            &weights[i],
        );
        assert_eq!(bits(&ys[i]), bits(&alone));
    }
    assert_eq!(matmuls(&mut []), Ok(()));
}
