//! Attention over a cache: a float64 reference, what is held, independence, refusals.

mod common;

use common::{Elements, Random, bits};
use mlx_kernels_cpu::attention::{Problem, Rotary, attend};
use mlx_kernels_cpu::{Error, FloatType};

const TYPES: [FloatType; 3] = [FloatType::F32, FloatType::F16, FloatType::Bf16];

/// One turn in so many tokens, with which `rotary` and the reference rotate.
#[derive(Clone)]
struct Turning {
    periods: Vec<f64>,
    traditional: bool,
    position_scale: f64,
    factor: f32,
}

impl Turning {
    fn plain(dimensions: usize) -> Self {
        let pairs = dimensions / 2;
        let period = |pair| 100.0_f64.powf(pair as f64 / pairs as f64);
        Self {
            periods: (0..pairs).map(period).collect(),
            traditional: false,
            position_scale: 1.0,
            factor: 1.0,
        }
    }

    fn rotary(&self) -> Rotary {
        let periods = self.periods.clone();
        Rotary::new(periods, self.traditional, self.position_scale, self.factor)
    }

    fn rotated(&self, head: &[f64], position: usize) -> Vec<f64> {
        let mut rotated = head.to_vec();
        let count = self.periods.len();
        for (pair, period) in self.periods.iter().enumerate() {
            let (a, b) = if self.traditional {
                (2 * pair, 2 * pair + 1)
            } else {
                (pair, pair + count)
            };
            let (sine, cosine) = (position as f64 * self.position_scale / period).sin_cos();
            rotated[a] = head[a] * cosine - head[b] * sine;
            rotated[b] = head[a] * sine + head[b] * cosine;
        }
        rotated.iter().map(|x| x * f64::from(self.factor)).collect()
    }
}

/// A cache, new tokens and what becomes of them.
#[derive(Clone)]
struct Case {
    problem: Problem,
    turning: Turning,
    fresh: [Elements; 3],
    held: [Elements; 2],
}

impl Case {
    /// Random contents; what lies behind the held tokens is NaN, so that reading it shows.
    fn random(problem: Problem, turning: Turning, float_type: FloatType, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let Problem {
            tokens,
            heads,
            kv_heads,
            head_dim,
            ..
        } = problem;
        let mut fresh = |heads: usize| {
            let values: Vec<f32> = (0..tokens * heads * head_dim)
                .map(|_| 2.0 * random.unit())
                .collect();
            Elements::rounded(float_type, &values)
        };
        let fresh = [fresh(heads), fresh(kv_heads), fresh(kv_heads)];
        let mut held = || {
            let values: Vec<f32> = (0..kv_heads * problem.capacity * head_dim)
                .map(|i| {
                    let filled = i / head_dim % problem.capacity < problem.held;
                    if filled {
                        2.0 * random.unit()
                    } else {
                        f32::NAN
                    }
                })
                .collect();
            Elements::rounded(float_type, &values)
        };
        let held = [held(), held()];
        Self {
            problem,
            turning,
            fresh,
            held,
        }
    }

    /// Runs the step; gives the mix, widened.
    fn run(&mut self, scale: f32) -> Result<Vec<f32>, Error> {
        let mut mixed = self.fresh[0].clone();
        let [keys, values] = &mut self.held;
        attend(
            &self.problem,
            &self.turning.rotary(),
            scale,
            self.fresh.each_ref().map(Elements::borrow),
            keys.borrow_mut(),
            values.borrow_mut(),
            mixed.borrow_mut(),
        )?;
        Ok(mixed.wide())
    }

    /// The mix by float64, of keys and values as the cache holds them after the step.
    fn expected(&self, scale: f32) -> Vec<f64> {
        let problem = &self.problem;
        let width = problem.head_dim;
        let wide = |elements: &Elements| -> Vec<f64> {
            elements.wide().into_iter().map(f64::from).collect()
        };
        let (queries, keys, values) = (
            wide(&self.fresh[0]),
            wide(&self.held[0]),
            wide(&self.held[1]),
        );
        let mut mixed = Vec::new();
        for token in 0..problem.tokens {
            let position = problem.held + token;
            for head in 0..problem.heads {
                let query = &queries[(token * problem.heads + head) * width..][..width];
                let query = self.turning.rotated(query, position);
                let kv_head = head / (problem.heads / problem.kv_heads);
                let row = |of: &[f64], key: usize| -> Vec<f64> {
                    of[(kv_head * problem.capacity + key) * width..][..width].to_vec()
                };
                let scores: Vec<f64> = (0..=position)
                    .map(|key| {
                        let products = query.iter().zip(row(&keys, key)).map(|(q, k)| q * k);
                        f64::from(scale) * products.sum::<f64>()
                    })
                    .collect();
                let top = scores.iter().copied().fold(f64::MIN, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
                let sum: f64 = weights.iter().sum();
                let mut mix = vec![0.0; width];
                for (key, weight) in weights.iter().enumerate() {
                    for (mix, value) in mix.iter_mut().zip(row(&values, key)) {
                        *mix += weight / sum * value;
                    }
                }
                mixed.extend(mix);
            }
        }
        mixed
    }
}

fn problem(tokens: usize, held: usize, heads: [usize; 2], head_dim: usize) -> Problem {
    Problem {
        tokens,
        held,
        capacity: held + tokens + 3,
        heads: heads[0],
        kv_heads: heads[1],
        head_dim,
    }
}

/// Extents at the edges of batches, blocks and registers.
fn problems() -> Vec<Problem> {
    let mut problems = vec![
        problem(1, 0, [1, 1], 2),
        problem(1, 0, [9, 3], 64),
        problem(1, 500, [9, 3], 64),
        problem(70, 0, [4, 2], 128),
        problem(33, 40, [2, 1], 80),
    ];
    for (tokens, held) in [(2, 1), (3, 4), (15, 0), (16, 1), (17, 14), (1, 16)] {
        for head_dim in [6, 16, 20, 48] {
            problems.push(problem(tokens, held, [6, 2], head_dim));
        }
    }
    problems
}

#[test]
fn equals_float64_over_what_is_held() {
    for (seed, problem) in problems().into_iter().enumerate() {
        for float_type in TYPES {
            let turning = Turning::plain(problem.head_dim);
            let mut case = Case::random(problem, turning, float_type, seed as u64);
            let mixed = case.run(0.3).expect("a valid step");
            let unit = match float_type {
                FloatType::F32 => 4e-6,
                FloatType::F16 => 1.5e-3,
                FloatType::Bf16 => 1.2e-2,
            };
            for (found, expected) in mixed.iter().zip(case.expected(0.3)) {
                let error = (f64::from(*found) - expected).abs();
                assert!(
                    error < unit,
                    "{problem:?} {float_type}: {found} for {expected}"
                );
            }
        }
    }
}

#[test]
fn the_cache_gets_rotated_keys_and_plain_values() {
    let problem = problem(5, 3, [4, 2], 12);
    let turnings = [
        Turning::plain(12),
        Turning {
            traditional: true,
            ..Turning::plain(12)
        },
        Turning {
            position_scale: 0.25,
            factor: 1.5,
            ..Turning::plain(8)
        },
        Turning::plain(0),
    ];
    for turning in turnings {
        let mut case = Case::random(problem, turning.clone(), FloatType::F32, 7);
        let before = case.held.each_ref().map(Elements::wide);
        case.run(1.0).expect("a valid step");
        let [keys, values] = case.held.each_ref().map(Elements::wide);
        let fresh = case.fresh.each_ref().map(Elements::wide);
        for head in 0..2 {
            for row in 0..problem.capacity {
                let at = (head * problem.capacity + row) * 12;
                let Some(token) = row.checked_sub(3).filter(|&token| token < 5) else {
                    // Held already, or beyond: as it was.
                    assert_eq!(bits(&keys[at..at + 12]), bits(&before[0][at..at + 12]));
                    assert_eq!(bits(&values[at..at + 12]), bits(&before[1][at..at + 12]));
                    continue;
                };
                let from = (token * 2 + head) * 12;
                assert_eq!(values[at..at + 12], fresh[2][from..from + 12]);
                let key: Vec<f64> = fresh[1][from..from + 12]
                    .iter()
                    .map(|&x| x.into())
                    .collect();
                let expected = turning.rotated(&key, row);
                for (found, expected) in keys[at..at + 12].iter().zip(expected) {
                    assert!((f64::from(*found) - expected).abs() < 1e-6);
                }
            }
        }
    }
}

#[test]
fn a_token_has_the_same_bits_alone_and_among_others() {
    for head_dim in [20, 64] {
        let all = problem(37, 0, [6, 3], head_dim);
        let mut together = Case::random(all, Turning::plain(head_dim), FloatType::F32, 3);
        let mixed = together.run(0.2).expect("a valid step");
        let mut held = Case::random(all, Turning::plain(head_dim), FloatType::F32, 3).held;
        let row = |elements: &Elements, heads: usize, token: usize| {
            let row = heads * head_dim;
            let values = elements.wide()[token * row..][..row].to_vec();
            Elements::rounded(FloatType::F32, &values)
        };
        for token in 0..37 {
            let mut alone = Case {
                problem: Problem {
                    tokens: 1,
                    held: token,
                    ..all
                },
                turning: together.turning.clone(),
                fresh: [
                    row(&together.fresh[0], 6, token),
                    row(&together.fresh[1], 3, token),
                    row(&together.fresh[2], 3, token),
                ],
                held,
            };
            let found = alone.run(0.2).expect("a valid step");
            let row = 6 * head_dim;
            assert_eq!(
                bits(&found),
                bits(&mixed[token * row..][..row]),
                "token {token}"
            );
            held = alone.held;
        }
        assert_eq!(bits(&held[0].wide()), bits(&together.held[0].wide()));
    }
}

#[test]
fn large_scores_do_not_overflow_and_one_key_takes_all() {
    let mut case = Case::random(
        problem(1, 1, [1, 1], 16),
        Turning::plain(0),
        FloatType::F32,
        1,
    );
    let capacity = case.problem.capacity;
    let rows = |first: f32| {
        let mut values = vec![first; 16];
        values.resize(capacity * 16, 0.0);
        Elements::F32(values)
    };
    case.held = [rows(1e15), rows(3.0)];
    case.fresh = [1e15, 0.0, 5.0].map(|value| Elements::F32(vec![value; 16]));
    assert_eq!(case.run(1.0).expect("a valid step"), [3.0; 16]);
    // Equal scores: the mean.
    case.held = [rows(0.0), rows(3.0)];
    assert_eq!(case.run(1.0).expect("a valid step"), [4.0; 16]);
}

#[test]
fn nan_reaches_those_who_see_it() {
    let problem = problem(6, 2, [2, 1], 16);
    let mut case = Case::random(problem, Turning::plain(16), FloatType::F32, 5);
    let Elements::F32(keys) = &mut case.fresh[1] else {
        unreachable!("made as float32");
    };
    keys[3 * 16 + 2] = f32::NAN;
    let mixed = case.run(1.0).expect("a valid step");
    for (token, row) in mixed.chunks(32).enumerate() {
        assert!(
            row.iter().all(|value| value.is_nan() == (token >= 3)),
            "token {token}"
        );
    }
    // A query's NaN stays with its head.
    let mut case = Case::random(problem, Turning::plain(16), FloatType::F32, 5);
    let Elements::F32(queries) = &mut case.fresh[0] else {
        unreachable!("made as float32");
    };
    queries[4 * 32 + 16] = f32::NAN;
    let mixed = case.run(1.0).expect("a valid step");
    for (index, head) in mixed.chunks(16).enumerate() {
        assert!(
            head.iter().all(|value| value.is_nan() == (index == 9)),
            "{index}"
        );
    }
}

#[test]
fn no_tokens_change_nothing() {
    let mut case = Case::random(
        problem(0, 2, [2, 1], 16),
        Turning::plain(16),
        FloatType::F32,
        5,
    );
    let before = case.held[0].wide();
    assert!(case.run(1.0).expect("a valid step").is_empty());
    assert_eq!(bits(&case.held[0].wide()), bits(&before));
}

#[test]
fn extents_that_contradict_each_other_are_refused() {
    let valid = problem(2, 1, [4, 2], 16);
    let refusal = |problem: Problem, rotated: usize| {
        let mut case = Case::random(valid, Turning::plain(rotated), FloatType::F32, 5);
        case.problem = problem;
        case.run(1.0).expect_err("a contradiction")
    };
    let wrong = Problem {
        kv_heads: 0,
        ..valid
    };
    assert_eq!(
        refusal(wrong, 16),
        Error::Empty {
            argument: "kv_heads"
        }
    );
    let wrong = Problem {
        head_dim: 0,
        ..valid
    };
    assert_eq!(
        refusal(wrong, 16),
        Error::Empty {
            argument: "head_dim"
        }
    );
    for heads in [0, 3] {
        let (wrong, kv_heads) = (Problem { heads, ..valid }, 2);
        assert_eq!(refusal(wrong, 16), Error::Heads { heads, kv_heads });
    }
    let (got, head_dim) = (18, 16);
    assert_eq!(refusal(valid, 18), Error::Rotated { got, head_dim });
    let wrong = Problem {
        capacity: 2,
        ..valid
    };
    let (capacity, needed) = (2, 3);
    assert_eq!(refusal(wrong, 16), Error::Capacity { capacity, needed });
    let wrong = Problem {
        held: usize::MAX,
        ..valid
    };
    assert!(matches!(refusal(wrong, 16), Error::Capacity { .. }));
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let valid = problem(2, 1, [4, 2], 16);
    let short = || Elements::F32(vec![0.0; 5]);
    for argument in ["queries", "keys", "values", "held_keys", "held_values"] {
        let mut case = Case::random(valid, Turning::plain(16), FloatType::F32, 5);
        let mut narrow = case.clone();
        let place = |case: &mut Case, change: &dyn Fn(&Elements) -> Elements| {
            let Case { fresh, held, .. } = case;
            let element = match argument {
                "queries" => &mut fresh[0],
                "keys" => &mut fresh[1],
                "values" => &mut fresh[2],
                "held_keys" => &mut held[0],
                _ => &mut held[1],
            };
            *element = change(element);
        };
        place(&mut case, &|_| short());
        let error = case.run(1.0).expect_err("a short array");
        assert!(
            matches!(error, Error::Length { argument: found, got: 5, .. } if found == argument),
            "{error}"
        );
        place(&mut narrow, &|old| {
            Elements::rounded(FloatType::F16, &old.wide())
        });
        let error = narrow.run(1.0).expect_err("two types");
        assert!(matches!(error, Error::ElementType { .. }), "{error}");
    }
}
