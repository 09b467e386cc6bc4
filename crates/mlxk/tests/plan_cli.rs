//! `mlxk plan`: the kernels that it names, for weights of either format.

use std::process::{Command, Output};

use serde_json::Value;

fn mlxk(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_mlxk")).args(args).output();
    output.expect("mlxk runs")
}

fn plans(args: &[&str]) -> Value {
    let output = mlxk(&[&["plan", "--json", "--rows", "1,3,5"], args].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn trellis_plans_follow_axis_and_device() {
    let down = plans(&[
        "--trellis",
        "out",
        "--for",
        "metal",
        "--bits",
        "3",
        "5120x17408",
    ]);
    assert_eq!(down["format"]["axis"], 0);
    let found = &down["plans"][0]["plans"];
    assert_eq!(found[0], "trellis balanced scatter");
    assert_eq!(found[2], "trellis prefill split");
    let origins = down["origins"].to_string();
    assert!(origins.contains("M4 Pro"), "{origins}");

    let gate = plans(&["--trellis", "in", "--for", "cpu", "--bits", "7", "64x96"]);
    assert_eq!(gate["plans"][0]["plans"][1], "cpu simd trellis");
}

#[test]
fn affine_plans_name_their_origin() {
    let found = plans(&["--for", "cuda", "--bits", "4", "64x128"]);
    assert_eq!(found["plans"][0]["plans"][0], "tensor");
    assert!(found["origins"][0].to_string().contains("H200"), "{found}");
}

#[test]
fn widths_that_no_code_has_are_refused() {
    for (args, word) in [
        (["--trellis", "in", "--bits", "9", "64x96"], "9"),
        (["--trellis", "in", "--bits", "3", "64x100"], "100"),
        (["--group-size", "64", "--bits", "7", "64x128"], "7"),
    ] {
        let output = mlxk(&[&["plan"], &args[..]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(word), "{text}");
    }
}
