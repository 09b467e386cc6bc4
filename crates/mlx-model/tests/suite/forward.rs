//! Logits: against the reference, across formats, kernels, chunks and caches.

use mlx_model::config::QuantizationScheme;
use mlx_model::kernels::{Dense, Extension, Stock};
use mlx_model::{Kernels, Model, ModelError, Pass, Usage};
use mlx_rs::{Array, Dtype};
use serde_json::json;

use crate::reference;
use crate::tiny::{CONTEXT, MatrixFormat, Tiny, VOCABULARY, load, load_gguf, loaded};

const TOKENS: [u32; 12] = [3, 141, 59, 26, 200, 35, 8, 97, 93, 238, 46, 264];

fn all_logits(model: &Model, kernels: &dyn Kernels, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut cache = model.new_cache();
    let logits = model
        .forward(tokens, &mut cache, Pass::new(kernels))
        .unwrap();
    rows(&logits)
}

fn rows(logits: &Array) -> Vec<Vec<f32>> {
    let values = logits
        .as_dtype(Dtype::Float32)
        .unwrap()
        .to_vec_exact::<f32>()
        .unwrap();
    values.chunks(VOCABULARY).map(<[f32]>::to_vec).collect()
}

/// Largest difference, in units of the largest expected magnitude.
fn worst(found: &[Vec<f32>], expected: &[Vec<f64>]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let scale = expected
        .iter()
        .flatten()
        .fold(0.0, |scale: f64, value| scale.max(value.abs()));
    found
        .iter()
        .flatten()
        .zip(expected.iter().flatten())
        .map(|(&found, expected)| (f64::from(found) - expected).abs() / scale)
        .fold(0.0, |worst, error| {
            if error > worst || error.is_nan() {
                error
            } else {
                worst
            }
        })
}

fn widened(rows: &[Vec<f32>]) -> Vec<Vec<f64>> {
    rows.iter()
        .map(|row| row.iter().copied().map(f64::from).collect())
        .collect()
}

#[track_caller]
fn assert_reference(tiny: &Tiny) {
    let found = all_logits(&loaded(tiny), &Stock, &TOKENS);
    let error = worst(&found, &reference::logits(tiny, &TOKENS));
    assert!(
        error < 1e-5,
        "relative error {error:.2e} for {}",
        tiny.config
    );
}

#[test]
fn every_architecture_equals_the_reference() {
    for architecture in ["llama", "qwen2", "qwen3"] {
        assert_reference(&Tiny::new(architecture));
    }
}

#[test]
fn an_untied_head_equals_the_reference() {
    assert_reference(&Tiny::new("llama").untied());
    // Without a word on it the file decides.
    assert_reference(
        &Tiny::new("qwen3")
            .untied()
            .with("tie_word_embeddings", json!(null)),
    );
    assert_reference(&Tiny::new("qwen3").with("tie_word_embeddings", json!(null)));
}

#[test]
fn every_rope_variant_equals_the_reference() {
    let base = || Tiny::new("llama");
    assert_reference(&base().with("rope_theta", json!(500.0)));
    assert_reference(&base().with("partial_rotary_factor", json!(0.5)));
    let scaling = |block| base().with("rope_scaling", block);
    assert_reference(&scaling(json!({"type": "linear", "factor": 4.0})));
    assert_reference(&scaling(json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    })));
    assert_reference(&scaling(json!({
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32,
    })));
}

#[test]
fn gguf_and_folder_hold_the_same_model() {
    for architecture in ["llama", "qwen3"] {
        for format in [
            MatrixFormat::F32,
            MatrixFormat::F16,
            MatrixFormat::Q4_1,
            MatrixFormat::Q8_0,
        ] {
            let tiny = Tiny::new(architecture).rounded_to(format);
            let gguf = load_gguf(&tiny.gguf(format).finish()).unwrap();
            let found = all_logits(&gguf, &Stock, &TOKENS);
            let expected = widened(&all_logits(&loaded(&tiny), &Stock, &TOKENS));
            let error = worst(&found, &expected);
            assert!(error < 1e-5, "{architecture}: relative error {error:.2e}");
        }
    }
}

#[test]
fn an_mlx_folder_may_mix_schemes() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = Tiny::new("qwen3").with(
        "quantization",
        json!({
            "bits": 4,
            "group_size": 32,
            "model.layers.0.mlp.up_proj": {"bits": 8, "group_size": 64},
            "model.layers.1.mlp.gate_proj": false,
        }),
    );
    tiny.write_quantized_folder(folder.path(), |path| match path {
        "model.layers.0.mlp.up_proj" => Some((8, 64)),
        "model.layers.1.mlp.gate_proj" => None,
        _ => Some((4, 32)),
    });
    let model = load(folder.path()).unwrap();
    let usage = Usage::default();
    let pass = Pass {
        kernels: &Stock,
        usage: Some(&usage),
        statistics: None,
    };
    let mut cache = model.new_cache();
    let stock = rows(&model.forward(&TOKENS, &mut cache, pass).unwrap());
    let dense = widened(&all_logits(&model, &Dense::float64(), &TOKENS));
    assert!(worst(&stock, &dense) < 1e-5);

    let lines: Vec<_> = usage
        .lines()
        .into_iter()
        .map(|line| (line.layer.name(), line.weights, line.layers, line.rows))
        .filter(|line| line.0 == "up_proj" || line.0 == "gate_proj")
        .collect();
    let line = |name, weights: &str| (name, weights.to_owned(), 1, TOKENS.len());
    assert_eq!(
        lines,
        [
            line("gate_proj", "4-bit g32"),
            line("gate_proj", "float32"),
            line("up_proj", "4-bit g32"),
            line("up_proj", "8-bit g64"),
        ]
    );
}

#[test]
fn shards_hold_the_same_model_as_one_file() {
    let tiny = Tiny::new("llama");
    let folder = tempfile::tempdir().unwrap();
    crate::folder_errors::write_shards(&tiny, folder.path());
    let sharded = all_logits(&load(folder.path()).unwrap(), &Stock, &TOKENS);
    assert_eq!(sharded, all_logits(&loaded(&tiny), &Stock, &TOKENS));
}

#[test]
fn kernels_agree_on_one_loaded_model() {
    let tiny = Tiny::new("llama").rounded_to(MatrixFormat::Q4_1);
    let model = load_gguf(&tiny.gguf(MatrixFormat::Q4_1).finish()).unwrap();
    let expected = widened(&all_logits(&model, &Dense::float64(), &TOKENS));
    let extension = Extension::new(mlx_kernels::Context::detect());
    let device = Dense::device();
    for kernels in [&Stock as &dyn Kernels, &extension, &device] {
        let error = worst(&all_logits(&model, kernels, &TOKENS), &expected);
        assert!(
            error < 1e-5,
            "{}: relative error {error:.2e}",
            kernels.name()
        );
    }
}

#[test]
fn narrow_activations_stay_near_the_reference() {
    let tiny = Tiny::new("qwen3");
    let folder = tempfile::tempdir().unwrap();
    tiny.write_folder(folder.path());
    let expected = reference::logits(&tiny, &TOKENS);
    for (dtype, bound) in [(Dtype::Float16, 0.02), (Dtype::Bfloat16, 0.15)] {
        let options = mlx_model::LoadOptions {
            dtype: Some(dtype),
            ..Default::default()
        };
        let model = Model::load(folder.path(), options).unwrap();
        assert_eq!(model.dtype(), dtype);
        let error = worst(&all_logits(&model, &Stock, &TOKENS), &expected);
        assert!(error < bound, "{dtype:?}: relative error {error:.2e}");
    }
}

#[test]
fn cached_decoding_equals_one_pass() {
    let model = loaded(&Tiny::new("qwen3"));
    let expected = widened(&all_logits(&model, &Stock, &TOKENS));
    let mut cache = model.new_cache();
    let pass = Pass::new(&Stock);
    for (position, &token) in TOKENS.iter().enumerate() {
        let found = rows(&model.forward(&[token], &mut cache, pass).unwrap());
        assert!(
            worst(&found, &expected[position..=position]) < 1e-5,
            "position {position}"
        );
        assert_eq!(cache.len(), position + 1);
    }
}

#[test]
fn chunked_prefill_equals_one_pass() {
    let model = loaded(&Tiny::new("llama"));
    let expected = widened(&all_logits(&model, &Stock, &TOKENS));
    for chunk in [1, 5, 6, 12, 100] {
        let mut cache = model.new_cache();
        let last = model
            .prefill(&TOKENS, &mut cache, Pass::new(&Stock), chunk)
            .unwrap();
        assert!(
            worst(&rows(&last), &expected[11..]) < 1e-5,
            "chunks of {chunk}"
        );
    }
}

#[test]
fn a_cleared_cache_starts_anew_and_growth_keeps_what_was_held() {
    // Longer than one growth step of the cache.
    let model = loaded(&Tiny::new("llama").with("max_position_embeddings", json!(600)));
    let long: Vec<u32> = (0..300).map(|i| (i * 37) % VOCABULARY as u32).collect();
    let expected = widened(&all_logits(&model, &Stock, &long));
    let mut cache = model.new_cache();
    let pass = Pass::new(&Stock);
    for _ in 0..2 {
        model.forward(&long[..250], &mut cache, pass).unwrap();
        let found = rows(&model.forward(&long[250..], &mut cache, pass).unwrap());
        assert!(worst(&found, &expected[250..]) < 1e-5);
        cache.clear();
        assert!(cache.is_empty());
    }
}

#[test]
fn requantized_weights_are_what_stock_quantization_gives() {
    let scheme = QuantizationScheme::new(8, 32).unwrap();
    for tiny in [Tiny::new("llama"), Tiny::new("llama").untied()] {
        let model = loaded(&tiny);
        let requantized = model.requantize(scheme).unwrap();
        assert!(requantized.weight_bytes() < model.weight_bytes() / 3);

        let folder = tempfile::tempdir().unwrap();
        let quantization = json!({"bits": 8, "group_size": 32});
        let tiny = tiny.with("quantization", quantization);
        tiny.write_quantized_folder(folder.path(), |_| Some((8, 32)));
        let expected = widened(&all_logits(&load(folder.path()).unwrap(), &Stock, &TOKENS));
        // The folder's scales went through float16.
        assert!(worst(&all_logits(&requantized, &Stock, &TOKENS), &expected) < 2e-3);
    }
}

#[test]
fn requantizing_needs_whole_groups() {
    let scheme = QuantizationScheme::new(4, 64).unwrap();
    // down_proj has 96 columns.
    let error = loaded(&Tiny::new("llama"))
        .requantize(scheme)
        .err()
        .unwrap();
    assert!(matches!(&error, ModelError::Quantization { .. }), "{error}");
    assert!(
        error.to_string().contains("down_proj") && error.to_string().contains("96"),
        "{error}"
    );
}

#[test]
fn unusable_tokens_are_refused() {
    let model = loaded(&Tiny::new("llama"));
    let pass = Pass::new(&Stock);
    let mut cache = model.new_cache();
    let error = model.prefill(&[], &mut cache, pass, 8).err().unwrap();
    assert!(matches!(error, ModelError::EmptyPrompt), "{error}");
    let error = model.forward(&[], &mut cache, pass).err().unwrap();
    assert!(matches!(error, ModelError::EmptyPrompt), "{error}");

    let error = model
        .forward(&[5, VOCABULARY as u32], &mut cache, pass)
        .err()
        .unwrap();
    assert!(
        matches!(
            error,
            ModelError::TokenOutOfRange {
                found: 272,
                vocabulary: 272
            }
        ),
        "{error}"
    );

    let long = vec![1; CONTEXT + 1];
    let error = model.prefill(&long, &mut cache, pass, 8).err().unwrap();
    assert!(
        matches!(
            error,
            ModelError::ContextLength {
                found: 49,
                limit: 48
            }
        ),
        "{error}"
    );
    assert!(cache.is_empty(), "nothing ran");
    model.prefill(&long[1..], &mut cache, pass, 8).unwrap();
    let error = model.forward(&[1], &mut cache, pass).err().unwrap();
    assert!(
        matches!(
            error,
            ModelError::ContextLength {
                found: 49,
                limit: 48
            }
        ),
        "{error}"
    );

    let error = model
        .prefill(&[1], &mut model.new_cache(), pass, 0)
        .err()
        .unwrap();
    assert!(matches!(error, ModelError::Invalid { .. }), "{error}");
}
