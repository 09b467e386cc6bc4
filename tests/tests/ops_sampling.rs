//! `ops::normalized_argmax` and `ops::apply_token_bitmask` on every back end of this machine.

mod common;

use common::{FLOATS, Random, array, backends, bits, floats, on, values};
use integration_tests::golden;
use mlx_kernels::{Backend, ops};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype};

fn argmax(backend: Backend, logits: &Array) -> Array {
    on(backend, || ops::normalized_argmax(logits)).unwrap()
}

fn ids(array: &Array) -> Vec<u32> {
    array.reshape(&[-1]).unwrap().as_slice::<u32>().to_vec()
}

fn random(shape: &[i32], dtype: Dtype, seed: u64) -> Array {
    let count = shape.iter().product::<i32>() as usize;
    let values: Vec<f32> = Random::new(seed)
        .floats(count)
        .iter()
        .map(|v| v * 8.0)
        .collect();
    floats(&values, shape, dtype)
}

/// What the operation means, in MLX's own.
fn stock_argmax(logits: &Array) -> Array {
    let scores = mlx_rs::ops::subtract(logits, logits.logsumexp_axis(-1, true).unwrap()).unwrap();
    mlx_rs::ops::indexing::argmax_axis(scores, -1, false).unwrap()
}

#[test]
fn golden_tokens_are_exact_on_every_back_end() {
    for case in golden::load("normalized_argmax") {
        for backend in backends() {
            let tokens = argmax(backend, &array(case.tensor("logits")));
            assert_eq!(
                tokens.as_slice::<u32>(),
                case.tensor("ids").u32(),
                "{backend} {}",
                case.name
            );
        }
    }
}

#[test]
fn tokens_equal_the_stock_expression() {
    for backend in backends() {
        for vocabulary in [
            1, 2, 31, 127, 128, 129, 1023, 1024, 1025, 32000, 151_936, 262_144,
        ] {
            for (dtype, leading) in FLOATS.into_iter().zip([&[][..], &[3], &[1, 2]]) {
                let shape: Vec<i32> = leading.iter().copied().chain([vocabulary]).collect();
                let logits = random(&shape, dtype, vocabulary as u64);
                let tokens = argmax(backend, &logits);
                assert_eq!((tokens.shape(), tokens.dtype()), (leading, Dtype::Uint32));
                assert_eq!(
                    ids(&tokens),
                    ids(&stock_argmax(&logits)),
                    "{backend} {dtype:?} {shape:?}"
                );
            }
        }
    }
}

#[test]
fn many_rows_keep_apart() {
    for backend in backends() {
        let logits = random(&[64, 1500], Dtype::Bfloat16, 5);
        assert_eq!(
            ids(&argmax(backend, &logits)),
            ids(&stock_argmax(&logits)),
            "{backend}"
        );
    }
}

#[test]
fn the_lowest_of_equal_scores_wins_wherever_they_are() {
    for backend in backends() {
        for places in [
            [5, 133],
            [0, 1],
            [40, 70],
            [1023, 1024],
            [100, 2999],
            [0, 2999],
        ] {
            let mut logits = vec![-2.0_f32; 3000];
            for place in places {
                logits[place] = 3.0;
            }
            let tokens = argmax(backend, &floats(&logits, &[3000], Dtype::Float32));
            assert_eq!(ids(&tokens), [places[0] as u32], "{backend}");
        }
        for winner in [0, 1023, 1024, 2999] {
            let mut logits = vec![-2.0_f32; 3000];
            logits[winner] = 3.0;
            let tokens = argmax(backend, &floats(&logits, &[3000], Dtype::Float16));
            assert_eq!(ids(&tokens), [winner as u32], "{backend}");
        }
    }
}

#[test]
fn rows_without_a_finite_normalizer_give_token_0() {
    for backend in backends() {
        let mut logits = vec![0.5_f32; 5 * 2000];
        logits[1500] = f32::NAN;
        logits[2000 + 1500] = f32::INFINITY;
        logits[4000..6000].fill(f32::NEG_INFINITY);
        logits[6000 + 1500] = 2.0;
        logits[8000..10_000].fill(f32::NEG_INFINITY);
        logits[8000 + 17] = -3.0;
        let tokens = argmax(backend, &floats(&logits, &[5, 2000], Dtype::Float32));
        assert_eq!(ids(&tokens), [0, 0, 0, 1500, 17], "{backend}");
    }
}

#[test]
fn strided_logits_equal_their_copy() {
    for backend in backends() {
        let strided = random(&[1100, 3], Dtype::Float32, 2).transpose().unwrap();
        let copied = Array::from_slice(&values(&strided), &[3, 1100]);
        assert_eq!(
            ids(&argmax(backend, &strided)),
            ids(&argmax(backend, &copied)),
            "{backend}"
        );
    }
}

#[test]
fn integer_and_empty_logits_are_the_stock_operation_s() {
    for backend in backends() {
        let integers = Array::from_slice(&[1_i32, 9, 9, 2], &[2, 2]);
        assert_eq!(
            ids(&argmax(backend, &integers)),
            ids(&stock_argmax(&integers))
        );
        let none = Array::from_slice::<f32>(&[], &[2, 0]);
        assert!(
            on(backend, || ops::normalized_argmax(&none)).is_err(),
            "{backend}"
        );
    }
}

fn mask(backend: Backend, logits: &Array, words: &Array) -> Array {
    on(backend, || ops::apply_token_bitmask(logits, words)).unwrap()
}

/// The definition, on the CPU in plain Rust.
fn expected(logits: &[f32], vocabulary: usize, words: &[u32]) -> Vec<f32> {
    let allowed = |id: usize| {
        words
            .get(id / 32)
            .is_some_and(|word| word >> (id % 32) & 1 == 1)
    };
    let mask = |(i, &logit)| {
        logit
            + if allowed(i % vocabulary) {
                0.0
            } else {
                f32::NEG_INFINITY
            }
    };
    logits.iter().enumerate().map(mask).collect()
}

/// Equal with the sign of zero, and NaN where NaN.
fn assert_same(ours: &Array, expected: &[f32], context: &str) {
    for (i, (a, &b)) in values(ours).into_iter().zip(expected).enumerate() {
        let same = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        assert!(same, "{context}: element {i} is {a:?}, expected {b:?}");
    }
}

#[test]
fn golden_masks_are_exact_on_every_back_end() {
    for case in golden::load("token_bitmask") {
        for backend in backends() {
            let masked = mask(
                backend,
                &array(case.tensor("logits")),
                &array(case.tensor("mask")),
            );
            let expected = case.tensor("masked").to_f32();
            for (a, b) in values(&masked).into_iter().zip(expected) {
                assert!(
                    a == b || (a.is_nan() && b.is_nan()),
                    "{backend} {}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn one_mask_serves_all_rows_and_missing_words_reject() {
    for backend in backends() {
        for vocabulary in [1, 31, 32, 33, 127, 128, 129, 1000, 151_936] {
            for (dtype, rows) in FLOATS.into_iter().zip([1, 3, 2]) {
                let logits = random(&[rows, vocabulary], dtype, 3);
                let plain = values(&logits);
                let whole = (vocabulary as usize).div_ceil(32);
                for count in [whole, whole + 3, whole.div_ceil(2), 1] {
                    let words = Random::new(count as u64).words(count);
                    let masked = mask(
                        backend,
                        &logits,
                        &Array::from_slice(&words, &[count as i32]),
                    );
                    assert_eq!((masked.shape(), masked.dtype()), (logits.shape(), dtype));
                    let context = format!("{backend} {dtype:?} V = {vocabulary}, {count} words");
                    assert_same(
                        &masked,
                        &expected(&plain, vocabulary as usize, &words),
                        &context,
                    );
                }
            }
        }
    }
}

#[test]
fn it_is_an_addition() {
    for backend in backends() {
        let special = [-0.0, 0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 5.0];
        let logits = floats(&special, &[6], Dtype::Float32);
        for words in [[u32::MAX], [0]] {
            let masked = mask(backend, &logits, &Array::from_slice(&words, &[1]));
            assert_same(&masked, &expected(&special, 6, &words), backend.name());
        }
    }
}

#[test]
fn single_allowed_ids_and_int32_words() {
    for backend in backends() {
        for id in [0_usize, 31, 32, 99] {
            let mut words = [0_u32; 4];
            words[id / 32] = 1 << (id % 32);
            let signed: Vec<i32> = words.iter().map(|word| word.cast_signed()).collect();
            let logits = random(&[2, 100], Dtype::Float16, 4);
            for words in [
                Array::from_slice(&words, &[4]),
                Array::from_slice(&signed, &[4]),
            ] {
                let masked = mask(backend, &logits, &words);
                let finite: Vec<_> = values(&masked).iter().map(|v| v.is_finite()).collect();
                assert!(
                    finite
                        .iter()
                        .enumerate()
                        .all(|(i, &f)| f == (i % 100 == id)),
                    "{backend} {id}"
                );
                assert_eq!(ids(&argmax(backend, &masked)), [id as u32; 2], "{backend}");
            }
        }
        let none = mask(
            backend,
            &random(&[100], Dtype::Float32, 4),
            &Array::from_slice(&[0_u32; 4], &[4]),
        );
        assert_eq!(ids(&argmax(backend, &none)), [0], "{backend}");
    }
}

#[test]
fn empty_logits_and_empty_masks() {
    for backend in backends() {
        let words = Array::from_slice::<u32>(&[], &[0]);
        let logits = random(&[2, 40], Dtype::Bfloat16, 1);
        let masked = mask(backend, &logits, &words);
        assert!(
            values(&masked).iter().all(|&v| v == f32::NEG_INFINITY),
            "{backend}"
        );
        let none = mask(
            backend,
            &logits.index(0..0),
            &Array::from_slice(&[1_u32], &[1]),
        );
        assert_eq!(none.shape(), [0, 40], "{backend}");
    }
}

#[test]
fn a_mask_for_each_row() {
    for backend in backends() {
        let logits = random(&[3, 50], Dtype::Float32, 6);
        let words = Random::new(7).words(6);
        let masked = mask(backend, &logits, &Array::from_slice(&words, &[3, 2]));
        let plain = values(&logits);
        let rows: Vec<f32> = (0..3)
            .flat_map(|row| expected(&plain[row * 50..][..50], 50, &words[row * 2..][..2]))
            .collect();
        assert_same(&masked, &rows, backend.name());
    }
}

#[test]
fn a_masked_row_has_the_bits_of_the_stock_addition() {
    for backend in backends() {
        let logits = random(&[2, 64], Dtype::Float16, 8);
        let all = mask(backend, &logits, &Array::from_slice(&[u32::MAX; 2], &[2]));
        assert_eq!(
            bits(&all),
            bits(&mlx_rs::ops::add(&logits, floats(&[0.0], &[1], Dtype::Float16)).unwrap())
        );
    }
}

#[test]
fn each_wrong_argument_is_named() {
    let logits = random(&[2, 64], Dtype::Float32, 1);
    let refusal = |logits: &Array, words: &Array| {
        ops::apply_token_bitmask(logits, words)
            .unwrap_err()
            .what()
            .to_owned()
    };
    let words = Array::from_slice(&[1_u32; 6], &[3, 2]);
    for (message, part) in [
        (
            refusal(&logits.as_dtype(Dtype::Int32).unwrap(), &words),
            "logits has dtype Int32",
        ),
        (refusal(&logits, &logits), "bits has dtype Float32"),
        (
            refusal(&logits, &words),
            "bits has shape [3, 2]; expected [words] or [2, words]",
        ),
        (
            refusal(&Array::from_f32(1.0), &words),
            "logits has shape []",
        ),
    ] {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}
