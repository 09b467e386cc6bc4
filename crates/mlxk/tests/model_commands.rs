//! `mlxk kl` and `mlxk generate` as a user runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn mlxk(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mlxk"))
        .args(arguments)
        .env_remove("MLXK_BACKEND")
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The real model where `scripts/fetch-model` has put it, or `None` with a message.
fn model() -> Option<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(".cache/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !path.is_file() {
        eprintln!(
            "skipped: {} is absent; scripts/fetch-model brings it",
            path.display()
        );
        return None;
    }
    Some(path.to_string_lossy().into_owned())
}

#[test]
fn errors_name_what_is_wrong_and_exit_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.gguf");
    std::fs::write(&cut, b"GGUF\x03\0\0\0").unwrap();
    for (path, words) in [(Path::new("/nowhere.gguf"), "no such"), (&cut, "truncated")] {
        let path = path.to_string_lossy();
        for arguments in [
            vec!["kl", "--model", &path],
            vec!["generate", "--model", &path, "--prompt", "x"],
        ] {
            let output = mlxk(&arguments);
            assert_eq!(output.status.code(), Some(1));
            let text = stderr(&output);
            assert!(text.contains(&*path) && text.contains(words), "{text}");
        }
    }
}

#[test]
fn arguments_are_checked_before_anything_runs() {
    let refused = |arguments: &[&str], words: &str| {
        let output = mlxk(arguments);
        assert!(!output.status.success());
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    };
    refused(&["kl"], "--model");
    refused(
        &["kl", "--model", "m", "--requantize", "7"],
        "2, 3, 4, 5, 6 or 8",
    );
    refused(
        &["kl", "--model", "m", "--baseline", "original"],
        "--requantize",
    );
    refused(
        &[
            "kl",
            "--model",
            "m",
            "--no-reference",
            "--no-worse-than-stock",
        ],
        "cannot be used",
    );
}

#[test]
fn kl_reports_and_its_gates_decide_the_exit_status() {
    let Some(model) = model() else { return };
    let base = [
        "kl",
        "--backend",
        "cpu",
        "--model",
        &model,
        "--tokens",
        "8",
        "--rows",
        "4",
        "--json",
    ];
    let output = mlxk(&[&base[..], &["--max-mean-kl", "1e-5", "--min-top1", "1"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let measured = &report["measurement"];
    assert_eq!(measured["tokens"], 8);
    let arms: Vec<_> = measured["arms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| &a["name"])
        .collect();
    assert_eq!(arms, ["stock", "cpu", "dense"]);
    let kernels = measured["arms"][1]["kernels"].as_array().unwrap();
    assert_eq!(
        kernels
            .iter()
            .map(|line| line["layers"].as_u64().unwrap())
            .sum::<u64>(),
        211
    );
    assert!(kernels.iter().all(|line| line["rows"] == 4));
    assert_eq!(report["gates"].as_array().unwrap().len(), 2);

    // A 3-bit model is not the original one.
    let strict = ["--no-reference", "--max-mean-kl", "1e-5"];
    let requantized = ["--requantize", "3", "--baseline", "original"];
    let output = mlxk(&[&base[..], &requantized, &strict].concat());
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

#[test]
fn generate_streams_text_and_reports_rates() {
    let Some(model) = model() else { return };
    let prompt = [
        "--prompt",
        "What is the capital of France?",
        "--chat",
        "--max-tokens",
        "12",
    ];
    let base = ["generate", "--model", &model];
    let output = mlxk(&[&base[..], &prompt].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.contains("Paris") && text.ends_with('\n'), "{text:?}");
    assert!(stderr(&output).contains("tokens/s"), "{}", stderr(&output));

    let output = mlxk(&[&base[..], &prompt, &["--json"]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["text"], text.trim_end());
    assert_eq!(report["finish"], "stop");
    assert_eq!(report["timings"]["generated_tokens"], 7);
}
