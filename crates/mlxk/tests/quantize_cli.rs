//! `mlxk quantize` as a user runs it, on a small model of made-up weights.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

const HIDDEN: usize = 64;
const INNER: usize = 128;
const VOCABULARY: usize = 400;

/// Writes a Llama of two blocks, with a tokenizer of made-up words.
fn write_model(folder: &Path) {
    let config = json!({
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_hidden_layers": 2,
        "intermediate_size": INNER,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 512,
        "tie_word_embeddings": true,
        "eos_token_id": 0,
    });
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let vocabulary: serde_json::Map<String, Value> = (0..VOCABULARY)
        .map(|id| (format!("w{id}"), json!(id)))
        .collect();
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w1"},
    });
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();

    let mut shapes = BTreeMap::from([
        ("model.embed_tokens".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("model.norm".to_owned(), vec![HIDDEN]),
    ]);
    for layer in 0..2 {
        for (module, shape) in [
            ("input_layernorm", vec![HIDDEN]),
            ("post_attention_layernorm", vec![HIDDEN]),
            ("self_attn.q_proj", vec![HIDDEN, HIDDEN]),
            ("self_attn.k_proj", vec![HIDDEN / 2, HIDDEN]),
            ("self_attn.v_proj", vec![HIDDEN / 2, HIDDEN]),
            ("self_attn.o_proj", vec![HIDDEN, HIDDEN]),
            ("mlp.gate_proj", vec![INNER, HIDDEN]),
            ("mlp.up_proj", vec![INNER, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, INNER]),
        ] {
            shapes.insert(format!("model.layers.{layer}.{module}"), shape);
        }
    }
    let mut state = 1_u32;
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = shapes
        .into_iter()
        .map(|(path, shape)| {
            let mut value = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let uniform = (state >> 8) as f32 / 8_388_608.0 - 1.0;
                uniform * 0.2 + if shape.len() == 1 { 1.0 } else { 0.0 }
            };
            let count = shape.iter().product();
            let bytes = (0..count).flat_map(|_| value().to_le_bytes()).collect();
            (format!("{path}.weight"), shape.clone(), bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap();
        (name, view)
    });
    let bytes = safetensors::serialize(views, None).unwrap();
    fs::write(folder.join("model.safetensors"), bytes).unwrap();
}

/// A folder with the model as `in`.
fn workplace() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let input = root.path().join("in");
    fs::create_dir(&input).unwrap();
    write_model(&input);
    root
}

fn mlxk(root: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mlxk"))
        .current_dir(root)
        .args(["--backend", "cpu"])
        .args(arguments)
        .env_remove("MLXK_BACKEND")
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

const TRELLIS: [&str; 6] = ["quantize", "--mode", "trellis", "--bits", "3", "in"];

#[test]
fn the_folder_generates_and_is_measured_against_its_original() {
    let root = workplace();
    let root = root.path();
    let output = mlxk(
        root,
        &[&TRELLIS[..], &["out", "--bits-for", "*.down_proj=4"]].concat(),
    );
    assert!(output.status.success(), "{}", stderr(&output));
    // Nothing but the summary: neither stream is a terminal.
    assert_eq!(stderr(&output), "");
    let text = String::from_utf8(output.stdout).unwrap();
    for words in [
        "trellis 3-bit T64 axis 1",
        "trellis 4-bit T64 axis 0",
        "affine 8-bit, was dense",
        "blocks are of 64",
    ] {
        assert!(text.contains(words), "{text}");
    }

    let words = root.join("words.txt");
    let text: Vec<String> = (0..24).map(|i| format!("w{}", i * i % 397 + 2)).collect();
    fs::write(&words, text.join(" ")).unwrap();
    let kl = [
        "kl",
        "--model",
        "out",
        "--text",
        "words.txt",
        "--json",
        "--no-reference",
    ];
    let original = ["--baseline", "original", "--reference-model", "in"];
    let report = json_of(&mlxk(root, &[&kl[..], &original].concat()));
    let pair = &report["measurement"]["pairs"][0];
    assert_eq!(pair["baseline"], "original");
    let divergence = pair["kl"]["mean"].as_f64().unwrap();
    assert!(divergence > 1e-6 && divergence < 1.0, "{divergence}");
    let kernels = report["measurement"]["arms"][1]["kernels"]
        .as_array()
        .unwrap();
    let down = kernels
        .iter()
        .find(|line| line["layer"] == "down_proj")
        .unwrap();
    assert_eq!(down["weights"], "4-bit trellis T64 axis 0");
    assert_eq!(down["kernel"], "cpu simd trellis");

    let generate = ["generate", "--model", "out", "--prompt", "w5 w6", "--json"];
    let report = json_of(&mlxk(
        root,
        &[&generate[..], &["--max-tokens", "4"]].concat(),
    ));
    assert!(report["timings"]["generated_tokens"].as_u64().unwrap() > 0);
}

/// Runs the command where files may not grow beyond `blocks` of 512 bytes.
#[cfg(unix)]
fn limited(root: &Path, blocks: u32, setup: &str, arguments: &[&str]) -> Output {
    let script = format!("{setup} ulimit -f {blocks}; exec \"$@\"");
    Command::new("sh")
        .current_dir(root)
        .args([
            "-c",
            &script,
            "sh",
            env!("CARGO_BIN_EXE_mlxk"),
            "--backend",
            "cpu",
        ])
        .args(arguments)
        .output()
        .unwrap()
}

#[cfg(unix)]
#[test]
fn a_run_that_was_killed_or_found_no_room_goes_on() {
    let root = workplace();
    let root = root.path();
    let whole = json_of(&mlxk(root, &[&TRELLIS[..], &["whole", "--json"]].concat()));
    assert_eq!(whole["summary"]["resumed"], 0);

    // The embedding table, which comes last, is the only part above 16 KiB: the system kills the
    // process that writes it.
    let again = [&TRELLIS[..], &["again", "--json"]].concat();
    let killed = limited(root, 32, "", &again);
    assert_eq!(killed.status.code(), None, "{}", stderr(&killed));
    assert!(!root.join("again").exists() && root.join("again.partial").exists());
    // With the signal ignored, the write fails as on a full disk.
    let full = limited(root, 32, "trap '' XFSZ;", &again);
    assert_eq!(full.status.code(), Some(1));
    let text = stderr(&full);
    assert!(
        text.contains("model.embed_tokens") && text.contains("cannot be written"),
        "{text}"
    );
    // There is room for every part, but not for all of them in one file.
    let full = limited(root, 100, "trap '' XFSZ;", &again);
    assert_eq!(full.status.code(), Some(1));
    assert!(
        stderr(&full).contains("model.safetensors"),
        "{}",
        stderr(&full)
    );
    assert!(!root.join("again").exists());

    let other = mlxk(root, &[&again[..], &["--down-axis", "in"]].concat());
    assert_eq!(other.status.code(), Some(1));
    assert!(stderr(&other).contains("down axis"), "{}", stderr(&other));
    let report = json_of(&mlxk(root, &again));
    assert_eq!(report["summary"]["resumed"], 15);
    assert!(!root.join("again.partial").exists());
    for file in ["model.safetensors", "config.json", "tokenizer.json"] {
        let read = |folder: &str| fs::read(root.join(folder).join(file)).unwrap();
        assert!(read("whole") == read("again"), "{file}");
    }
}

#[test]
fn rotated_and_calibrated_folders_load() {
    let root = workplace();
    let root = root.path();
    let words: Vec<String> = (0..600).map(|i| format!("w{}", i * i % 399 + 1)).collect();
    fs::write(root.join("text"), words.join(" ")).unwrap();
    let more = ["out", "--rotate", "1", "--calibrate", "text", "--json"];
    let report = json_of(&mlxk(root, &[&TRELLIS[..], &more].concat()));
    assert_eq!(report["summary"]["tripped"], json!([]));
    let run = [
        "generate",
        "--model",
        "out",
        "--prompt",
        "w5 w6",
        "--max-tokens",
        "4",
        "--json",
    ];
    let generated = json_of(&mlxk(root, &run));
    assert!(generated["text"].is_string(), "{generated}");
}

#[test]
fn arguments_that_do_not_go_together_are_refused() {
    let root = workplace();
    let root = root.path();
    let refused = |arguments: &[&str], words: &str| {
        let output = mlxk(root, arguments);
        assert!(!output.status.success());
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        assert!(!root.join("out").exists() && !root.join("out.partial").exists());
    };
    let trellis = |more: &[&'static str]| [&TRELLIS[..], &["out"], more].concat();
    refused(&trellis(&["--group-size", "64"]), "--group-size");
    refused(
        &trellis(&["--interleave", "--down-axis", "in"]),
        "--interleave",
    );
    refused(&trellis(&["--interleave"]), "down_proj");
    refused(&trellis(&["--bits-for", "*.up_proj"]), "PATTERN=BITS");
    refused(&trellis(&["--bits-for", "*.nothing=2"]), "*.nothing");
    let affine = ["quantize", "--mode", "affine", "--bits", "3", "in", "out"];
    refused(
        &[&affine[..], &["--down-axis", "in"]].concat(),
        "--mode trellis",
    );
    for more in [["--rotate", "1"], ["--calibrate", "text"]] {
        refused(&[&affine[..], &more].concat(), "--mode trellis");
    }
    refused(&trellis(&["--calibrate", "nowhere.txt"]), "nowhere.txt");
    refused(&trellis(&["--calibration-tokens", "9"]), "--calibrate");
    refused(
        &["quantize", "--mode", "affine", "--bits", "7", "in", "out"],
        "7",
    );
    refused(
        &[
            "quantize", "--mode", "affine", "--bits", "4", "nowhere", "out",
        ],
        "nowhere",
    );
    refused(
        &["kl", "--model", "in", "--reference-model", "in"],
        "--baseline original",
    );
}
