//! The table of shaders against `kernels/registry.json`, and what MLX asks of every text.

use serde_json::Value;

use super::{ALL, Shader};

fn registered() -> Vec<Value> {
    let text = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../kernels/registry.json"
    ));
    let registry: Value = serde_json::from_str(text).expect("registry.json is JSON");
    registry["kernels"]
        .as_array()
        .expect("a list of kernels")
        .clone()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .expect("a list")
        .iter()
        .map(|value| value.as_str().expect("a text"))
        .collect()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["name"].as_str().expect("a name"))
        .collect()
}

#[test]
fn registry_lists_the_same_kernels() {
    let registered = registered();
    assert_eq!(registered.len(), ALL.len());
    for (entry, shader) in registered.iter().zip(ALL) {
        assert_eq!(entry["name"], shader.name);
        assert_eq!(entry["body"], shader.body.path);
        assert_eq!(names(&entry["inputs"]), shader.inputs);
        assert_eq!(names(&entry["outputs"]), shader.outputs);
        assert_eq!(texts(&entry["template"]), shader.template);
        let headers: Vec<&str> = shader.headers.iter().map(|file| file.path).collect();
        assert_eq!(texts(&entry["headers"]), headers);
    }
}

#[test]
fn names_are_distinct() {
    let mut names: Vec<&str> = ALL.iter().map(|shader| shader.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALL.len());
}

#[test]
fn every_template_parameter_that_is_no_dtype_is_used() {
    for shader in ALL {
        for parameter in shader
            .template
            .iter()
            .filter(|parameter| !["T", "S"].contains(parameter))
        {
            assert!(
                mentions(shader, parameter),
                "{} does not use {parameter}",
                shader.name
            );
        }
    }
}

fn mentions(shader: &Shader, word: &str) -> bool {
    let code = shader
        .body
        .text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|line| line.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()))
        .any(|found| found == word)
}

#[test]
fn cuda_text_has_the_vocabulary_and_no_metal_memory() {
    for shader in ALL {
        let text = shader.cuda();
        assert!(text.header.contains("#define thread_position_in_grid"));
        assert_eq!(text.body.lines().count(), shader.body.text.lines().count());
        assert!(
            !text
                .body
                .lines()
                .any(|line| line.starts_with("threadgroup ")),
            "{}",
            shader.name
        );
    }
}
