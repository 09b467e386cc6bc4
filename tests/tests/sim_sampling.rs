//! The greedy token of log-probabilities and the vocabulary mask, in the simulator.

mod sim;

use integration_tests::golden;
use metal_sim::{DType, OutputSpec, TemplateArg};
use mlx_kernels::shaders::{NORMALIZED_ARGMAX_FINAL, NORMALIZED_ARGMAX_TILES, TOKEN_BITMASK};
use sim::random::Random;
use sim::{FLOATS, Tensor, int, round, run, simulator, source};

/// Logarithm of the sum of exponentials in float64, rounded to `dtype`.
fn logsumexp(row: &[f32], dtype: DType) -> f32 {
    let highest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if row.iter().any(|v| v.is_nan()) {
        return f32::NAN;
    }
    if highest.is_infinite() {
        return highest;
    }
    let sum: f64 = row.iter().map(|&v| f64::from(v - highest).exp()).sum();
    round((f64::from(highest) + sum.ln()) as f32, dtype)
}

/// What the kernels must give: the first id of the largest rounded score, NaN counting as -infinity.
fn reference(row: &[f32], dtype: DType) -> u32 {
    let normalizer = logsumexp(row, dtype);
    let mut best = (f32::NEG_INFINITY, 0);
    for (id, &logit) in row.iter().enumerate() {
        let score = round(logit - normalizer, dtype);
        if score > best.0 {
            best = (score, id as u32);
        }
    }
    best.1
}

/// The tokens of rows of `vocabulary` logits by both passes.
fn normalized_argmax(logits: &[f32], vocabulary: usize, dtype: DType) -> Vec<u32> {
    let rows = logits.len() / vocabulary;
    let normalizers: Vec<f32> = logits
        .chunks_exact(vocabulary)
        .map(|row| logsumexp(row, dtype))
        .collect();
    let tiles = vocabulary.div_ceil(1024);
    let first = run(
        simulator(),
        &source(&NORMALIZED_ARGMAX_TILES),
        &[
            &Tensor::floats(logits, &[rows, vocabulary], dtype),
            &Tensor::floats(&normalizers, &[rows], dtype),
        ],
        &[
            OutputSpec::new(&[rows, tiles], DType::F32),
            OutputSpec::new(&[rows, tiles], DType::U32),
        ],
        &[
            ("T", TemplateArg::DType(dtype)),
            ("V", int(vocabulary)),
            ("TILES", int(tiles)),
        ],
        [128 * tiles, rows, 1],
        [128, 1, 1],
        None,
    )
    .expect("the first pass");
    let last = run(
        simulator(),
        &source(&NORMALIZED_ARGMAX_FINAL),
        &[&first[0], &first[1]],
        &[OutputSpec::new(&[rows], DType::U32)],
        &[("TILES", int(tiles))],
        [128, rows, 1],
        [128, 1, 1],
        None,
    )
    .expect("the second pass");
    last[0].to_u32()
}

/// The masked logits.
fn token_bitmask(logits: &Tensor, bits: &Tensor) -> Vec<f32> {
    let (rows, vocabulary) = (logits.shape[0], logits.shape[1]);
    let masked = run(
        simulator(),
        &source(&TOKEN_BITMASK),
        &[logits, bits],
        &[OutputSpec::new(&logits.shape, logits.dtype)],
        &[
            ("T", TemplateArg::DType(logits.dtype)),
            ("V", int(vocabulary)),
        ],
        [rows * vocabulary, 1, 1],
        [128, 1, 1],
        None,
    )
    .expect("the mask");
    masked[0].to_f32()
}

fn same(a: f32, b: f32) -> bool {
    (a.is_nan() && b.is_nan()) || a.to_bits() == b.to_bits()
}

#[test]
fn golden_argmax() {
    let mut cases = 0;
    for case in golden::load("normalized_argmax") {
        let logits = Tensor::golden(case.tensor("logits"));
        let ids = normalized_argmax(&logits.to_f32(), logits.shape[1], logits.dtype);
        assert_eq!(ids, case.tensor("ids").u32(), "{}", case.name);
        cases += 1;
    }
    assert_eq!(cases, 18);
}

#[test]
fn argmax_over_vocabularies_and_rows() {
    let mut random = Random::new(70);
    for (i, vocabulary) in [
        1, 2, 31, 127, 128, 129, 1023, 1024, 1025, 32000, 151_936, 262_144,
    ]
    .into_iter()
    .enumerate()
    {
        let rows = if vocabulary > 2000 {
            1
        } else {
            [1, 3, 64][i % 3]
        };
        for dtype in FLOATS {
            let logits: Vec<f32> = random
                .normals(rows * vocabulary)
                .into_iter()
                .map(|v| round(4.0 * v, dtype))
                .collect();
            let expected: Vec<u32> = logits
                .chunks_exact(vocabulary)
                .map(|row| reference(row, dtype))
                .collect();
            assert_eq!(
                normalized_argmax(&logits, vocabulary, dtype),
                expected,
                "{vocabulary} ids, {dtype:?}"
            );
        }
    }
}

/// Scores that round together go to the lower id, although its logit is the smaller one.
#[test]
fn rounding_makes_ties() {
    let mut logits = vec![0.0; 4096];
    (logits[5], logits[3000]) = (0.25, 0.251);
    let logits: Vec<f32> = logits.into_iter().map(|v| round(v, DType::BF16)).collect();
    assert!(logits[3000] > logits[5]);
    assert_eq!(normalized_argmax(&logits, 4096, DType::BF16), [5]);
    assert_eq!(normalized_argmax(&logits, 4096, DType::F32), [3000]);
}

/// Equal maxima in one thread's ids, in two lanes, simdgroups and tiles, at both ends.
#[test]
fn ties_go_to_the_lowest_id() {
    let vocabulary = 3000;
    for places in [
        [7, 135],
        [7, 8],
        [10, 100],
        [1023, 1024],
        [500, 2500],
        [0, 2999],
        [2998, 2999],
    ] {
        let mut logits = vec![-1.0; vocabulary];
        for place in places {
            logits[place] = 2.0;
        }
        assert_eq!(
            normalized_argmax(&logits, vocabulary, DType::F16),
            [places[0] as u32],
            "{places:?}"
        );
    }
    for winner in [0, 1023, 1024, vocabulary - 1] {
        let mut logits = vec![-1.0; vocabulary];
        logits[winner] = 2.0;
        assert_eq!(
            normalized_argmax(&logits, vocabulary, DType::F32),
            [winner as u32]
        );
    }
}

#[test]
fn rows_without_a_finite_sum_give_token_0() {
    let vocabulary = 1100;
    for dtype in FLOATS {
        let mut plain = vec![0.0; vocabulary];
        (plain[3], plain[900]) = (f32::NEG_INFINITY, 3.0);
        let with = |place: usize, value: f32| {
            let mut row = plain.clone();
            row[place] = value;
            row
        };
        let rows = [
            plain.clone(),
            with(1050, f32::NAN),
            plain.clone(),
            with(1050, f32::INFINITY),
            vec![f32::NEG_INFINITY; vocabulary],
            plain.clone(),
        ];
        assert_eq!(
            normalized_argmax(&rows.concat(), vocabulary, dtype),
            [900, 0, 900, 0, 0, 900],
            "{dtype:?}"
        );
    }
}

#[test]
fn golden_bitmask() {
    let mut cases = 0;
    for case in golden::load("token_bitmask") {
        let (logits, bits) = (
            Tensor::golden(case.tensor("logits")),
            Tensor::golden(case.tensor("mask")),
        );
        let expected = case.tensor("masked").to_f32();
        for (i, (y, expected)) in token_bitmask(&logits, &bits)
            .into_iter()
            .zip(expected)
            .enumerate()
        {
            assert!(
                same(y, expected),
                "{}: element {i} is {y}, expected {expected}",
                case.name
            );
        }
        cases += 1;
    }
    assert_eq!(cases, 24);
}

#[test]
fn one_mask_for_all_rows() {
    let mut random = Random::new(71);
    for (i, vocabulary) in [1, 31, 32, 33, 127, 128, 129, 1000, 151_936]
        .into_iter()
        .enumerate()
    {
        let (rows, dtype) = ([1, 3][i % 2], FLOATS[i % 3]);
        let logits: Vec<f32> = random
            .normals(rows * vocabulary)
            .into_iter()
            .map(|v| round(v, dtype))
            .collect();
        let words: Vec<u32> = (0..vocabulary.div_ceil(32))
            .map(|_| random.bits() as u32)
            .collect();
        let masked = token_bitmask(
            &Tensor::floats(&logits, &[rows, vocabulary], dtype),
            &Tensor::words(&words, &[1, words.len()]),
        );
        for (i, (&y, &logit)) in masked.iter().zip(&logits).enumerate() {
            let id = i % vocabulary;
            let expected = if words[id / 32] >> (id % 32) & 1 == 1 {
                logit
            } else {
                f32::NEG_INFINITY
            };
            assert!(
                same(y, expected),
                "{vocabulary} ids: element {i} is {y}, expected {expected}"
            );
        }
    }
}

/// The mask is an addition, and its words may be fewer or more than the ids need.
#[test]
fn masks_of_every_length() {
    let mut logits = vec![1.5; 70];
    (logits[0], logits[1], logits[2], logits[3]) =
        (-0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    let tensor = Tensor::floats(&logits, &[1, 70], DType::F16);
    let masked = |words: &[u32]| token_bitmask(&tensor, &Tensor::words(words, &[1, words.len()]));

    let all = masked(&[u32::MAX; 3]);
    assert!(same(all[0], 0.0), "-0 + 0 is +0");
    assert!(all[1].is_nan() && all[2] == f32::INFINITY && all[3] == f32::NEG_INFINITY);
    assert!(all[4..].iter().all(|&y| y == 1.5));
    assert!(
        same(masked(&[u32::MAX; 9])[69], 1.5),
        "more words than ids need"
    );

    let none = masked(&[0; 3]);
    assert!(none[1].is_nan() && none[2].is_nan());
    assert!(
        none.iter()
            .enumerate()
            .all(|(i, &y)| i == 1 || i == 2 || y == f32::NEG_INFINITY)
    );

    let short = masked(&[u32::MAX; 2]);
    assert!(
        short[63] == 1.5 && short[64..].iter().all(|&y| y == f32::NEG_INFINITY),
        "a missing word rejects"
    );

    for id in [31, 32, 69] {
        let mut words = [0u32; 3];
        words[id / 32] = 1 << (id % 32);
        let only = masked(&words);
        assert!(
            only.iter()
                .enumerate()
                .skip(4)
                .all(|(i, &y)| (y == 1.5) == (i == id)),
            "id {id}"
        );
    }
}

/// The greedy token of masked logits is allowed wherever one is; with none it is token 0.
#[test]
fn greedy_tokens_of_masked_logits() {
    let vocabulary = 200;
    let logits: Vec<f32> = Random::new(72).normals(vocabulary);
    let tensor = Tensor::floats(&logits, &[1, vocabulary], DType::F32);
    for allowed in [
        vec![0],
        vec![31],
        vec![32],
        vec![199],
        vec![5, 77, 140],
        vec![],
    ] {
        let mut words = [0u32; 7];
        for &id in &allowed {
            words[id / 32] |= 1 << (id % 32);
        }
        let masked = token_bitmask(&tensor, &Tensor::words(&words, &[1, 7]));
        let token = normalized_argmax(&masked, vocabulary, DType::F32)[0] as usize;
        let best = allowed
            .iter()
            .copied()
            .max_by(|&a, &b| logits[a].total_cmp(&logits[b]))
            .unwrap_or(0);
        assert_eq!(token, best, "{allowed:?}");
    }
}
