//! The real model, where `scripts/fetch-model` has put it.

use std::path::PathBuf;

use mlx_model::generate::{GenerateOptions, Generator};
use mlx_model::kernels::{Dense, Extension, Stock};
use mlx_model::kl::{Arm, KlOptions, measure, windows};
use mlx_model::{Kernels, Message, Model, Pass, Tokenizer};

use crate::tiny::load;

/// The model, or `None` with a message.
fn path() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(".cache/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !path.is_file() {
        eprintln!(
            "skipped: {} is absent; scripts/fetch-model brings it",
            path.display()
        );
        return None;
    }
    Some(path)
}

fn answer(model: &Model, tokenizer: &Tokenizer, kernels: &dyn Kernels, prompt: &str) -> String {
    let tokens = tokenizer.encode_chat(&[Message::user(prompt)]).unwrap();
    let options = GenerateOptions {
        max_tokens: 12,
        stop_tokens: tokenizer.stop_tokens().to_vec(),
        ..GenerateOptions::default()
    };
    let generator = Generator::new(model, Pass::new(kernels), &tokens, options).unwrap();
    let tokens = generator.collect::<Result<Vec<_>, _>>().unwrap();
    tokenizer.decode(&tokens).unwrap()
}

#[test]
fn the_tokenizer_knows_its_words() {
    let Some(path) = path() else { return };
    let tokenizer = Tokenizer::load(&path).unwrap();
    assert_eq!(tokenizer.vocabulary(), 49152);
    let text = "In 1987, the naïve café's 漢字 cost $3.50!\n\n  It wasn't cheap.";
    let tokens = tokenizer.encode(text).unwrap();
    assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
    // Digits stand alone, common words are single tokens.
    let digits = tokenizer.encode("1987").unwrap();
    assert_eq!(digits.len(), 4);
    assert_eq!(tokenizer.encode(" the people").unwrap().len(), 2);
    assert_eq!(tokenizer.stop_tokens(), [0, 2]);
}

#[test]
fn greedy_answers_are_the_stock_ones_and_make_sense() {
    let Some(path) = path() else { return };
    let (tokenizer, model) = (Tokenizer::load(&path).unwrap(), load(&path).unwrap());
    let extension = Extension::new(mlx_kernels::Context::detect());
    for (prompt, word) in [
        ("What is the capital of France?", "Paris"),
        ("Who wrote Romeo and Juliet?", "Shakespeare"),
    ] {
        let ours = answer(&model, &tokenizer, &extension, prompt);
        assert!(ours.contains(word), "{ours:?}");
        assert_eq!(ours, answer(&model, &tokenizer, &Stock, prompt));
    }
}

#[test]
fn the_extension_is_nearer_to_dense_than_stock() {
    let Some(path) = path() else { return };
    let (tokenizer, model) = (Tokenizer::load(&path).unwrap(), load(&path).unwrap());
    let text = "The tide goes out twice a day, and with it go the small boats of the village, \
                which come home in the evening with whatever the sea has given them.";
    let windows = windows(&tokenizer.encode(text).unwrap(), 16, &[]).unwrap();
    let (dense, extension) = (
        Dense::float64(),
        Extension::new(mlx_kernels::Context::detect()),
    );
    let arm = |name: &str, kernels| Arm {
        name: name.to_owned(),
        model: &model,
        kernels,
    };
    let arms = [
        arm("dense", &dense as &dyn Kernels),
        arm("stock", &Stock),
        arm("ours", &extension),
    ];
    let pairs = [(0, 1), (0, 2)];
    let measured = measure(&arms, &pairs, &windows, &KlOptions::default(), &mut |_| {}).unwrap();
    let (stock, ours) = (&measured.pairs[0], &measured.pairs[1]);
    assert!(
        ours.kl.mean <= stock.kl.mean,
        "{:e} {:e}",
        ours.kl.mean,
        stock.kl.mean
    );
    assert!(ours.kl.mean < 1e-5 && ours.top1_agreement >= 0.995);
    // Sixteen tokens are little to go by.
    let perplexity = measured.arms[2].perplexity;
    assert!((20.0..500.0).contains(&perplexity), "{perplexity}");
}
