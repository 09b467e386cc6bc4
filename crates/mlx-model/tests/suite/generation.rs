//! Generating tokens.

use mlx_model::generate::{Finish, GenerateOptions, Generator, SamplerOptions};
use mlx_model::kernels::{Extension, Stock};
use mlx_model::{Kernels, Model, ModelError, Pass};
use serde_json::json;

use crate::tiny::{CONTEXT, Tiny, loaded};

const PROMPT: [u32; 4] = [7, 33, 120, 2];

fn generate(
    model: &Model,
    kernels: &dyn Kernels,
    options: GenerateOptions,
) -> (Vec<u32>, Option<Finish>) {
    let mut generator = Generator::new(model, Pass::new(kernels), &PROMPT, options).unwrap();
    let tokens = generator.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(generator.timings().generated_tokens, tokens.len());
    assert_eq!(generator.timings().prompt_tokens, PROMPT.len());
    assert!(generator.next().is_none(), "an ended generator stays ended");
    (tokens, generator.finish())
}

/// A model whose configuration names no end-of-text token.
fn endless() -> Model {
    loaded(&Tiny::new("qwen3").with("eos_token_id", json!(null)))
}

fn options(max_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        max_tokens,
        ..GenerateOptions::default()
    }
}

#[test]
fn greedy_tokens_are_the_likeliest_of_each_step() {
    let model = endless();
    let (tokens, finish) = generate(&model, &Stock, options(10));
    assert_eq!((tokens.len(), finish), (10, Some(Finish::Length)));
    let mut sequence = PROMPT.to_vec();
    for &token in &tokens {
        let mut cache = model.new_cache();
        let logits = model
            .prefill(&sequence, &mut cache, Pass::new(&Stock), 64)
            .unwrap();
        let logits = logits.to_vec_exact::<f32>().unwrap();
        let best = (0..logits.len())
            .max_by(|&a, &b| logits[a].total_cmp(&logits[b]))
            .unwrap();
        assert_eq!(token as usize, best);
        sequence.push(token);
    }
    let extension = Extension::new(mlx_kernels::Context::detect());
    assert_eq!(generate(&model, &extension, options(10)).0, tokens);
}

#[test]
fn generation_ends_at_stop_tokens_and_leaves_them_out() {
    let model = endless();
    let tokens = generate(&model, &Stock, options(10)).0;
    let stop = tokens[4];
    let first = tokens.iter().position(|&token| token == stop).unwrap();
    let stopping = GenerateOptions {
        stop_tokens: vec![stop],
        ..options(10)
    };
    assert_eq!(
        generate(&model, &Stock, stopping),
        (tokens[..first].to_vec(), Some(Finish::Stop))
    );

    // The configuration's own: one id or several.
    for eos in [json!(stop), json!([270, stop])] {
        let model = loaded(&Tiny::new("qwen3").with("eos_token_id", eos));
        assert_eq!(generate(&model, &Stock, options(10)).0, tokens[..first]);
    }
}

#[test]
fn generation_ends_when_the_context_is_full() {
    let (tokens, finish) = generate(&endless(), &Stock, options(1000));
    // The last token is picked from a full cache and is not run.
    assert_eq!(
        (tokens.len(), finish),
        (CONTEXT - PROMPT.len() + 1, Some(Finish::Context))
    );
}

#[test]
fn no_tokens_may_be_asked_for() {
    assert_eq!(
        generate(&endless(), &Stock, options(0)),
        (vec![], Some(Finish::Length))
    );
}

#[test]
fn a_seed_fixes_sampled_tokens() {
    let model = endless();
    let sampled = |seed| {
        let sampler = SamplerOptions {
            temperature: 1.0,
            top_k: 50,
            top_p: 0.95,
            min_p: 0.01,
            seed,
        };
        generate(
            &model,
            &Stock,
            GenerateOptions {
                sampler,
                ..options(16)
            },
        )
        .0
    };
    assert_eq!(sampled(1), sampled(1));
    assert_ne!(sampled(1), sampled(2));
}

#[test]
fn bad_prompts_and_options_are_refused() {
    let model = endless();
    let refuse = |prompt: &[u32], options| {
        Generator::new(&model, Pass::new(&Stock), prompt, options)
            .err()
            .unwrap()
    };
    assert!(matches!(refuse(&[], options(4)), ModelError::EmptyPrompt));
    assert!(matches!(
        refuse(&[1; 60], options(4)),
        ModelError::ContextLength { .. }
    ));
    let sampler = SamplerOptions {
        top_p: 2.0,
        ..SamplerOptions::default()
    };
    let options = GenerateOptions {
        sampler,
        ..options(4)
    };
    assert!(matches!(refuse(&[1], options), ModelError::Invalid { .. }));
}
