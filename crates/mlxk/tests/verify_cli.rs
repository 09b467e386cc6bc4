//! `mlxk verify` as a command: what it prints and how it ends.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn mlxk(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mlxk"));
    command.args(arguments).env_remove("MLXK_BACKEND");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

#[test]
fn cases_that_hold_end_well() {
    let output = mlxk(&["--backend", "cpu", "verify", "--quick"])
        .output()
        .unwrap();
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}");
    for part in [
        "affine_cpu",
        "add_rms_norm",
        "of bound",
        "bit equalities",
        "cases hold",
    ] {
        assert!(table.contains(part), "{part:?} is not in\n{table}");
    }
    assert_eq!(text(&output.stderr), "", "no progress bar off a terminal");
}

#[test]
fn json_has_a_line_for_each_kernel_and_type() {
    let arguments = [
        "--backend",
        "cpu",
        "verify",
        "--quick",
        "--json",
        "--kernel",
    ];
    let output = mlxk(&[&arguments[..], &["affine_cpu,token_bitmask"]].concat())
        .output()
        .unwrap();
    let report = json(&output);
    assert_eq!(report["backend"], "cpu");
    assert_eq!(report["holds"], true);
    assert!(report["failures"].as_array().unwrap().is_empty());
    let lines = report["kernels"].as_array().unwrap();
    assert_eq!(lines.len(), 6, "two kernels, three types");
    for line in lines {
        assert!(["affine_cpu", "token_bitmask"].contains(&line["kernel"].as_str().unwrap()));
        assert!(line["cases"].as_u64().unwrap() > 0);
        assert_eq!(line["failed"], 0);
        assert!(line["bit_equalities"].as_u64().unwrap() > 0);
        assert!(line["worst_error_of_bound"].as_f64().unwrap() <= 1.0);
        assert!(line["worst_relative_error"].is_number() && line["seconds"].is_number());
    }
}

#[test]
fn kernels_that_are_not_there_are_named() {
    let output = mlxk(&["verify", "--kernel", "affine_rowz"])
        .output()
        .unwrap();
    let message = text(&output.stderr);
    assert_ne!(output.status.code(), Some(0));
    assert!(
        message.contains("affine_rowz") && message.contains("affine_rows"),
        "{message}"
    );

    let arguments = ["--backend", "cpu", "verify", "--kernel", "affine_mma"];
    let output = mlxk(&arguments).output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("affine_mma on back end cpu"), "{message}");
}

/// A compiler that describes itself and compiles nothing: no kernel runs, so no case holds.
#[cfg(unix)]
#[test]
fn cases_that_do_not_hold_end_with_status_3() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let compiler = folder.path().join("broken-c++");
    let script =
        "#!/bin/sh\ncase \" $* \" in *\" -dM \"*) exec c++ \"$@\";; esac\necho no >&2\nexit 1\n";
    std::fs::write(&compiler, script).unwrap();
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).unwrap();
    let verify = |folder: &Path, more: &[&str]| {
        let arguments = [
            "--backend",
            "sim",
            "verify",
            "--quick",
            "--kernel",
            "token_bitmask",
        ];
        mlxk(&[&arguments[..], more].concat())
            .env("CXX", folder.join("broken-c++"))
            .env("XDG_CACHE_HOME", folder)
            .output()
            .unwrap()
    };

    let output = verify(folder.path(), &["--json"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let report = json(&output);
    assert_eq!(report["holds"], false);
    let failures = report["failures"].as_array().unwrap();
    assert!(!failures.is_empty());
    for failure in failures {
        assert_eq!(failure["kernel"], "token_bitmask");
        assert!(
            failure["failure"].as_str().unwrap().contains("did not run"),
            "{failure}"
        );
        assert!(failure["case"].is_string() && failure["dtype"].is_string());
    }

    let table = text(&verify(folder.path(), &[]).stdout);
    assert!(table.contains("cases do not hold"), "{table}");
}
