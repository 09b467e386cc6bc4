//! Greedy tokens and masks: exact answers and refusals.

mod common;

use common::{Elements, Random};
use mlx_kernels_cpu::sampling::{apply_token_bitmask, greedy_token, normalized_argmax};
use mlx_kernels_cpu::{Error, FloatType, Floats};

const TYPES: [FloatType; 3] = [FloatType::F32, FloatType::F16, FloatType::Bf16];

/// The answer by definition.
fn first_largest(float_type: FloatType, logits: &[f32], logsumexp: f32) -> u32 {
    let scores: Vec<f32> = logits.iter().map(|logit| logit - logsumexp).collect();
    let scores = Elements::rounded(float_type, &scores).wide();
    let mut best = (0, f32::NEG_INFINITY);
    for (id, score) in scores.into_iter().enumerate() {
        if score > best.1 {
            best = (id, score);
        }
    }
    best.0 as u32
}

fn argmax(logits: &Elements, logsumexp: &Elements, rows: usize) -> Vec<u32> {
    let mut ids = vec![u32::MAX; rows];
    normalized_argmax(logits.borrow(), logsumexp.borrow(), &mut ids).expect("arrays that fit");
    ids
}

#[test]
fn the_first_of_the_largest_scores_wins() {
    for float_type in TYPES {
        for vocabulary in [1, 2, 31, 255, 256, 257, 1025, 32_000, 151_936] {
            let rows = 3;
            let mut random = Random::new(vocabulary as u64);
            let values: Vec<f32> = (0..rows * vocabulary)
                .map(|_| random.unit() * 8.0)
                .collect();
            let logits = Elements::rounded(float_type, &values);
            // Large sums make equals of close logits, so that ties are common.
            let sums = Elements::rounded(float_type, &[9.0, 40.0, 200.0]);
            let expected: Vec<u32> = logits
                .wide()
                .chunks_exact(vocabulary)
                .zip(sums.wide())
                .map(|(logits, sum)| first_largest(float_type, logits, sum))
                .collect();
            assert_eq!(
                argmax(&logits, &sums, rows),
                expected,
                "{float_type}, {vocabulary}"
            );
        }
    }
}

#[test]
fn ties_go_to_the_lower_id_wherever_they_lie() {
    let vocabulary = 40_000;
    for pair in [
        [0, 1],
        [255, 256],
        [5, 16_384],
        [16_383, 16_384],
        [0, 39_999],
    ] {
        let mut logits = vec![0.0; vocabulary];
        for id in pair {
            logits[id] = 2.0;
        }
        let ids = argmax(&Elements::F32(logits), &Elements::F32(vec![3.0]), 1);
        assert_eq!(ids, [pair[0] as u32]);
    }
}

#[test]
fn rows_without_a_finite_sum_give_token_0_and_spare_their_neighbours() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let rows = [
        [1.0, 2.0, 5.0, -inf],
        [1.0, nan, 5.0, 2.0],
        [1.0, 2.0, inf, 0.0],
        [-inf; 4],
        [-inf, -inf, 0.0, -inf],
    ];
    let logits = Elements::F32(rows.concat());
    let sums = Elements::F32(vec![5.1, nan, inf, -inf, 0.0]);
    assert_eq!(argmax(&logits, &sums, 5), [2, 0, 0, 0, 2]);
}

#[test]
fn argmax_arguments_are_checked() {
    let call = |logits: usize, sums: usize, ids: usize| {
        let (logits, sums) = (vec![0.0_f32; logits], vec![0.0_f32; sums]);
        normalized_argmax(Floats::F32(&logits), Floats::F32(&sums), &mut vec![0; ids])
    };
    assert_eq!(call(6, 2, 2), Ok(()));
    assert_eq!(call(0, 0, 0), Ok(()));
    let length = |argument, got, expected| {
        Err(Error::Length {
            argument,
            got,
            expected,
        })
    };
    assert_eq!(call(6, 3, 2), length("logsumexp", 3, 2));
    assert_eq!(call(6, 0, 0), length("logits", 6, 0));
    assert_eq!(
        call(7, 2, 2),
        Err(Error::Rows {
            argument: "logits",
            got: 7,
            width: 3
        })
    );
    assert_eq!(call(1, 2, 2), Err(Error::Empty { argument: "logits" }));
    let half = Elements::rounded(FloatType::F16, &[0.0]);
    let mixed = normalized_argmax(Floats::F32(&[0.0]), half.borrow(), &mut [0]);
    let message = "logsumexp is float16; it must be float32, as logits is";
    assert_eq!(mixed.expect_err("two types").to_string(), message);
}

/// Masked logits, widened.
fn masked(logits: &Elements, vocabulary: usize, mask: &[u32]) -> Vec<f32> {
    let mut masked = logits.clone();
    apply_token_bitmask(logits.borrow(), vocabulary, mask, masked.borrow_mut())
        .expect("arrays that fit");
    masked.wide()
}

#[test]
fn masks_are_added() {
    for float_type in TYPES {
        for vocabulary in [1, 31, 32, 33, 255, 256, 257, 1000, 40_000_usize] {
            let rows = 2;
            let mut random = Random::new(vocabulary as u64);
            let values: Vec<f32> = (0..rows * vocabulary).map(|_| random.unit()).collect();
            let logits = Elements::rounded(float_type, &values);
            for words in [0, 1, vocabulary / 64, vocabulary.div_ceil(32), vocabulary] {
                let mask: Vec<u32> = (0..words).map(|_| random.word()).collect();
                let wide = logits.wide();
                for (i, value) in masked(&logits, vocabulary, &mask).into_iter().enumerate() {
                    let id = i % vocabulary;
                    let allowed = mask
                        .get(id / 32)
                        .is_some_and(|word| word >> (id % 32) & 1 == 1);
                    let expected = if allowed { wide[i] } else { f32::NEG_INFINITY };
                    assert_eq!(
                        value, expected,
                        "{float_type}, {vocabulary}, {words} words, {i}"
                    );
                }
            }
        }
    }
}

#[test]
fn special_values_follow_addition() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for float_type in TYPES {
        let logits = Elements::rounded(float_type, &[-0.0, inf, -inf, nan]);
        let allowed = masked(&logits, 4, &[0b1111]);
        assert_eq!(allowed[0].to_bits(), 0);
        assert_eq!(allowed[1..3], [inf, -inf]);
        assert!(allowed[3].is_nan());
        let rejected = masked(&logits, 4, &[0]);
        assert_eq!((rejected[0], rejected[2]), (-inf, -inf));
        assert!(rejected[1].is_nan() && rejected[3].is_nan());
    }
}

#[test]
fn mask_arguments_are_checked() {
    let call = |logits: usize, vocabulary: usize, masked: usize| {
        let logits = vec![0.0_f32; logits];
        let mut masked = vec![0.0_f32; masked];
        apply_token_bitmask(
            Floats::F32(&logits),
            vocabulary,
            &[!0],
            (&mut masked[..]).into(),
        )
    };
    assert_eq!(call(6, 3, 6), Ok(()));
    assert_eq!(call(0, 0, 0), Ok(()));
    assert_eq!(
        call(6, 3, 5),
        Err(Error::Length {
            argument: "masked",
            got: 5,
            expected: 6
        })
    );
    assert_eq!(
        call(6, 4, 6),
        Err(Error::Rows {
            argument: "logits",
            got: 6,
            width: 4
        })
    );
    assert_eq!(
        call(6, 0, 6),
        Err(Error::Rows {
            argument: "logits",
            got: 6,
            width: 0
        })
    );
}

#[test]
fn greedy_tokens_are_those_under_the_float64_sum() {
    for float_type in TYPES {
        for vocabulary in [1, 17, 1025, 49_152] {
            let mut random = Random::new(vocabulary as u64);
            let values: Vec<f32> = (0..2 * vocabulary).map(|_| random.unit() * 8.0).collect();
            let logits = Elements::rounded(float_type, &values);
            let sums: Vec<f32> = logits
                .wide()
                .chunks(vocabulary)
                .map(|row| row.iter().map(|&x| f64::from(x).exp()).sum::<f64>().ln() as f32)
                .collect();
            let expected = argmax(&logits, &Elements::rounded(float_type, &sums), 2);
            let mut ids = [u32::MAX; 2];
            greedy_token(logits.borrow(), &mut ids).expect("arrays that fit");
            assert_eq!(ids[..], expected, "{float_type}, {vocabulary}");
        }
    }
}

#[test]
fn greedy_tokens_of_rows_without_a_finite_sum_are_0() {
    for value in [f32::NAN, f32::INFINITY] {
        let mut ids = [7; 2];
        let logits = [1.0, value, 0.0, 1.0];
        greedy_token((&logits[..]).into(), &mut ids).expect("arrays that fit");
        assert_eq!(ids, [0, 1]);
    }
}

#[test]
fn greedy_tokens_of_odd_rows_are_refused() {
    let mut ids = [7; 2];
    let refused = |logits: &[f32], ids: &mut [u32]| greedy_token(logits.into(), ids);
    assert_eq!(
        refused(&[], &mut ids),
        Err(Error::Empty { argument: "logits" })
    );
    assert!(matches!(
        refused(&[1.0; 5], &mut ids),
        Err(Error::Rows { .. })
    ));
    assert!(refused(&[1.0], &mut []).is_err());
    assert_eq!(refused(&[], &mut []), Ok(()));
    assert_eq!(ids, [7; 2]);
}
