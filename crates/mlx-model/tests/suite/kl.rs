//! KL measurements of tiny models, against plain float64.

use mlx_model::generate::{GenerateOptions, Generator};
use mlx_model::kernels::{Dense, Extension, Stock};
use mlx_model::kl::{Arm, KlOptions, Measurement, measure, windows};
use mlx_model::{Kernels, Model, ModelError, Pass};

use crate::reference;
use crate::tiny::{CONTEXT, MatrixFormat, Tiny, VOCABULARY, load_gguf, loaded};

fn text() -> Vec<u32> {
    (0..40u32)
        .map(|i| (i * i * 31 + 7 * i) % VOCABULARY as u32)
        .collect()
}

fn arm<'a>(name: &str, model: &'a Model, kernels: &'a dyn Kernels) -> Arm<'a> {
    Arm {
        name: name.to_owned(),
        model,
        kernels,
    }
}

fn compare(arms: &[Arm<'_>], pairs: &[(usize, usize)], rows: usize) -> Measurement {
    let windows = windows(&text(), 16, &[]).unwrap();
    let options = KlOptions {
        rows,
        worst: 3,
        context: 4,
    };
    let mut done = 0;
    let measured = measure(arms, pairs, &windows, &options, &mut |tokens| {
        done += tokens;
    })
    .unwrap();
    assert_eq!(done, 40);
    measured
}

fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
    logits.iter().map(|logit| logit - sum.ln()).collect()
}

#[test]
fn a_measurement_equals_plain_float64() {
    let p = Tiny::new("llama");
    let q = p.clone().with("rope_theta", 100.into());
    let (p_model, q_model) = (loaded(&p), loaded(&q));
    let arms = [arm("p", &p_model, &Stock), arm("q", &q_model, &Stock)];
    let measured = compare(&arms, &[(0, 1)], 5);

    let (mut kl, mut reverse, mut agreements, mut likelihood) = (vec![], vec![], 0, vec![]);
    for window in text().chunks(16) {
        let (p, q) = (reference::logits(&p, window), reference::logits(&q, window));
        for (position, (p, q)) in p.iter().zip(&q).enumerate() {
            let (p, q) = (log_softmax(p), log_softmax(q));
            kl.push(
                p.iter()
                    .zip(&q)
                    .map(|(p, q)| p.exp() * (p - q))
                    .sum::<f64>(),
            );
            reverse.push(
                p.iter()
                    .zip(&q)
                    .map(|(p, q)| q.exp() * (q - p))
                    .sum::<f64>(),
            );
            let top = |row: &[f64]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
            agreements += usize::from(top(&p) == top(&q));
            if let Some(&next) = window.get(position + 1) {
                likelihood.push(p[next as usize]);
            }
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    assert!((1..40).contains(&agreements), "{agreements} tell nothing");
    let close = |found: f64, expected: f64| {
        assert!(
            (found - expected).abs() <= 1e-4 * expected.abs(),
            "{found} {expected}"
        );
    };
    let pair = &measured.pairs[0];
    assert_eq!((measured.tokens, measured.windows), (40, 3));
    close(pair.kl.mean, mean(&kl));
    close(pair.reverse_kl.mean, mean(&reverse));
    close(pair.kl.max, kl.iter().copied().fold(0.0, f64::max));
    close(pair.top1_agreement, f64::from(agreements as u32) / 40.0);
    close(measured.arms[0].perplexity, (-mean(&likelihood)).exp());
    let window_means: Vec<f64> = kl.chunks(16).map(mean).collect();
    close(
        pair.window_means.min,
        window_means.iter().copied().fold(f64::INFINITY, f64::min),
    );
    close(
        pair.window_means.max,
        window_means.iter().copied().fold(0.0, f64::max),
    );

    let worst = (0..40).max_by(|&a, &b| kl[a].total_cmp(&kl[b])).unwrap();
    let found = &pair.worst[0];
    assert_eq!((found.window, found.position), (worst / 16, worst % 16));
    assert_eq!(found.context.last(), Some(&text()[worst]));
    assert!(found.context.len() <= 4);
    assert!(pair.worst.len() == 3 && pair.worst.is_sorted_by(|a, b| a.kl >= b.kl));
}

#[test]
fn the_same_arm_twice_does_not_diverge() {
    let model = loaded(&Tiny::new("llama"));
    let arms = [arm("a", &model, &Stock), arm("b", &model, &Stock)];
    let pair = &compare(&arms, &[(0, 1)], 16).pairs[0];
    assert_eq!(
        (pair.kl.max, pair.reverse_kl.max, pair.top1_agreement),
        (0.0, 0.0, 1.0)
    );
}

#[test]
fn rows_change_what_kernels_see_and_not_what_is_measured() {
    let tiny = Tiny::new("llama").rounded_to(MatrixFormat::Q4_1);
    let model = load_gguf(&tiny.gguf(MatrixFormat::Q4_1).finish()).unwrap();
    let dense = Dense::float64();
    let extension = Extension::new(mlx_kernels::Context::detect());
    for rows in [1, 7, 16] {
        let arms = [
            arm("dense", &model, &dense),
            arm("candidate", &model, &extension),
        ];
        let measured = compare(&arms, &[(0, 1)], rows);
        let pair = &measured.pairs[0];
        assert!(pair.kl.mean < 1e-9, "{rows} rows: {:e}", pair.kl.mean);
        let most = measured.arms[1].kernels.iter().map(|line| line.rows).max();
        assert_eq!(most, Some(rows));
        // Two layers of seven projections, and the head.
        let full: usize = measured.arms[1]
            .kernels
            .iter()
            .filter(|line| line.rows == rows)
            .map(|line| line.layers)
            .sum();
        assert_eq!(full, 15);
    }
}

#[test]
fn a_prefix_stands_before_every_window() {
    assert_eq!(
        windows(&[1, 2, 3, 4, 5], 2, &[9]).unwrap(),
        [vec![9, 1, 2], vec![9, 3, 4], vec![9, 5]]
    );
    assert!(matches!(
        windows(&[], 2, &[9]),
        Err(ModelError::EmptyPrompt)
    ));
    assert!(matches!(
        windows(&[1], 0, &[]),
        Err(ModelError::Invalid { .. })
    ));
}

#[test]
fn impossible_measurements_are_refused() {
    let model = loaded(&Tiny::new("llama"));
    let mut small = Tiny::new("llama").with("vocab_size", 100.into());
    let table = small.tensors.get_mut("model.embed_tokens.weight").unwrap();
    table.shape[0] = 100;
    table.values.truncate(100 * 64);
    let small = loaded(&small);
    let arms = [arm("a", &model, &Stock), arm("b", &small, &Stock)];
    let options = KlOptions::default();
    let refuse = |pairs: &[(usize, usize)], windows: &[Vec<u32>], options: &KlOptions| {
        measure(&arms, pairs, windows, options, &mut |_| {})
            .err()
            .unwrap()
    };
    let window = [vec![1, 2, 3]];
    assert!(
        refuse(&[(0, 1)], &window, &options)
            .to_string()
            .contains("vocabulary")
    );
    assert!(
        refuse(&[(0, 2)], &window, &options)
            .to_string()
            .contains("(0, 2)")
    );
    assert!(matches!(
        refuse(&[(0, 0)], &[], &options),
        ModelError::EmptyPrompt
    ));
    let long = [vec![1; CONTEXT + 1]];
    assert!(matches!(
        refuse(&[(0, 0)], &long, &options),
        ModelError::ContextLength { .. }
    ));
    let options = KlOptions { rows: 0, ..options };
    assert!(matches!(
        refuse(&[(0, 0)], &window, &options),
        ModelError::Invalid { .. }
    ));
}

#[test]
fn a_model_that_gives_no_numbers_is_refused() {
    let mut tiny = Tiny::new("llama");
    for tensor in tiny.tensors.values_mut() {
        tensor.values.fill(f32::NAN);
    }
    let model = loaded(&tiny);
    let arms = [arm("damaged", &model, &Stock)];
    let windows = windows(&text(), 16, &[]).unwrap();
    let error = measure(
        &arms,
        &[(0, 0)],
        &windows,
        &KlOptions::default(),
        &mut |_| {},
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("logits of damaged at position 0"), "{error}");

    let kernels = Stock;
    let pass = Pass {
        kernels: &kernels,
        usage: None,
        statistics: None,
    };
    let generator = Generator::new(&model, pass, &[1, 2], GenerateOptions::default());
    let error = generator.err().unwrap().to_string();
    assert!(error.contains("finite"), "{error}");
}
