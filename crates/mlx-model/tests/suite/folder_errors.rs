//! Model folders that must be refused, and said why.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mlx_model::{ModelError, Result};
use safetensors::Dtype;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tiny::{Stored, Tensor, Tiny, load, write_safetensors};

/// Writes the model as two shards and an index.
pub fn write_shards(tiny: &Tiny, folder: &Path) {
    tiny.write_config(folder);
    let mut weight_map = serde_json::Map::new();
    let mut shards = [BTreeMap::new(), BTreeMap::new()];
    for (index, (name, tensor)) in tiny.tensors.iter().enumerate() {
        shards[index % 2].insert(name.clone(), Stored::f32(tensor));
        weight_map.insert(name.clone(), json!(shard_name(index % 2)));
    }
    for (index, shard) in shards.into_iter().enumerate() {
        write_safetensors(&folder.join(shard_name(index)), &shard);
    }
    write_index(folder, &json!({"weight_map": weight_map}));
}

fn shard_name(index: usize) -> String {
    format!("model-{:05}-of-00002.safetensors", index + 1)
}

fn write_index(folder: &Path, index: &Value) {
    fs::write(
        folder.join("model.safetensors.index.json"),
        index.to_string(),
    )
    .unwrap();
}

fn folder(tiny: &Tiny) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    tiny.write_folder(folder.path());
    folder
}

#[track_caller]
fn refused(result: Result<mlx_model::Model>, words: &[&str]) -> ModelError {
    let error = result.err().expect("the model must be refused");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
    error
}

#[test]
fn missing_files() {
    let empty = tempfile::tempdir().unwrap();
    refused(load(empty.path()), &["config.json", "no such"]);
    Tiny::new("llama").write_config(empty.path());
    refused(load(empty.path()), &["model.safetensors", "no such"]);
    fs::write(empty.path().join("config.json"), "{\"model_type\": ").unwrap();
    refused(load(empty.path()), &["config.json", "not valid JSON"]);
}

#[test]
fn truncated_or_padded_safetensors() {
    let folder = folder(&Tiny::new("llama"));
    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    for length in [0, 7, 8, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).unwrap();
        let error = refused(load(folder.path()), &["model.safetensors"]);
        assert!(
            matches!(error, ModelError::Truncated { .. }),
            "{length}: {error}"
        );
    }
    fs::write(&path, [bytes.as_slice(), &[0]].concat()).unwrap();
    refused(load(folder.path()), &["file size"]);
}

#[test]
fn a_header_longer_than_the_file_or_than_any() {
    let folder = folder(&Tiny::new("llama"));
    let path = folder.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    for length in [bytes.len() as u64, u64::MAX] {
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        let error = refused(load(folder.path()), &["header"]);
        assert!(matches!(error, ModelError::Truncated { .. }), "{error}");
    }
}

#[test]
fn headers_that_lie() {
    let folder = folder(&Tiny::new("llama"));
    let path = folder.path().join("model.safetensors");
    let write = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        fs::write(&path, bytes).unwrap();
    };
    write("not JSON at all", 0);
    refused(load(folder.path()), &["header", "JSON"]);
    // The extent is not that of the shape.
    write(
        r#"{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}"#,
        8,
    );
    refused(load(folder.path()), &["header"]);
    // A gap before the first tensor.
    write(
        r#"{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}"#,
        8,
    );
    refused(load(folder.path()), &["header"]);
    // A product that overflows.
    let huge =
        r#"{"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}}"#;
    write(huge, 0);
    refused(load(folder.path()), &["header"]);
    write(
        r#"{"a": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}"#,
        4,
    );
    refused(load(folder.path()), &["dtype of tensor `a`", "F8_E4M3"]);
}

#[test]
fn an_index_that_names_what_is_not_there() {
    let tiny = Tiny::new("llama");
    let folder = tempfile::tempdir().unwrap();
    write_shards(&tiny, folder.path());
    load(folder.path()).unwrap();

    // Both are named at once.
    let index = json!({"weight_map": {
        "a": "model-00001-of-00002.safetensors", "b": "lost.safetensors", "c": "gone.safetensors",
    }});
    write_index(folder.path(), &index);
    let error = refused(load(folder.path()), &["gone.safetensors, lost.safetensors"]);
    assert!(matches!(error, ModelError::MissingShards { .. }));

    write_index(folder.path(), &json!({"weight_map": {"a": shard_name(0)}}));
    refused(load(folder.path()), &["tensor `a`", "absent"]);
    for outside in [
        "../model.safetensors",
        "/etc/passwd",
        "a/b.safetensors",
        "..",
    ] {
        write_index(folder.path(), &json!({"weight_map": {"a": outside}}));
        refused(load(folder.path()), &["shard of `a`", outside]);
    }
    write_index(folder.path(), &json!({"weight_map": {"a": 3}}));
    refused(load(folder.path()), &["shard of `a`"]);
    write_index(folder.path(), &json!({}));
    refused(load(folder.path()), &["weight_map", "missing"]);
}

#[test]
fn tensors_that_do_not_fit_the_configuration() {
    let refused = |edit: fn(&mut Tiny), words: &[&str]| {
        let mut tiny = Tiny::new("qwen3");
        edit(&mut tiny);
        refused(load(folder(&tiny).path()), words)
    };
    let error = refused(
        |tiny| {
            tiny.tensors
                .remove("model.layers.1.self_attn.q_norm.weight");
        },
        &["model.layers.1.self_attn.q_norm.weight", "missing"],
    );
    assert!(matches!(error, ModelError::MissingTensor { .. }));
    let error = refused(
        |tiny| {
            let values = vec![0.0; 64 * 63];
            let tensor = Tensor {
                shape: vec![64, 63],
                values,
            };
            tiny.tensors
                .insert("model.layers.0.self_attn.q_proj.weight".to_owned(), tensor);
        },
        &[
            "model.layers.0.self_attn.q_proj.weight",
            "[64, 63]",
            "[64, 64]",
        ],
    );
    assert!(matches!(error, ModelError::TensorShape { .. }));
    refused(
        |tiny| tiny.config["tie_word_embeddings"] = json!(false),
        &["lm_head.weight", "missing"],
    );
    refused(
        |tiny| tiny.config["attention_bias"] = json!(true),
        &["self_attn.q_proj.bias", "missing"],
    );
}

#[test]
fn configurations_outside_what_is_supported() {
    let refused = |key: &str, value: Value, words: &[&str]| {
        refused(
            load(folder(&Tiny::new("llama").with(key, value)).path()),
            words,
        );
    };
    refused(
        "model_type",
        json!("mamba"),
        &["`mamba`", "llama, qwen2 or qwen3"],
    );
    refused("model_type", json!(null), &["model_type", "missing"]);
    refused("hidden_size", json!(null), &["hidden_size", "missing"]);
    refused("hidden_size", json!("64"), &["hidden_size", "whole number"]);
    refused("hidden_size", json!(-64), &["hidden_size", "-64"]);
    refused(
        "vocab_size",
        json!(1u64 << 40),
        &["vocab_size", "1099511627776"],
    );
    refused(
        "num_hidden_layers",
        json!(1_000_000),
        &["layers", "1000000", "4096"],
    );
    refused(
        "num_key_value_heads",
        json!(3),
        &["3", "divisor of the 4 query heads"],
    );
    refused("head_dim", json!(15), &["rotary dimensions", "15"]);
    refused("rms_norm_eps", json!(-1.0), &["epsilon", "-1"]);
    refused("rope_theta", json!(0.0), &["rotary base", "0"]);
    refused("hidden_act", json!("gelu"), &["hidden_act", "gelu", "silu"]);
    refused("use_sliding_window", json!(true), &["use_sliding_window"]);
    refused(
        "rope_scaling",
        json!({"type": "dynamic", "factor": 2.0}),
        &["`dynamic`"],
    );
    refused(
        "rope_scaling",
        json!({"type": "linear"}),
        &["`factor`", "absent"],
    );
    refused(
        "rope_scaling",
        json!({"type": "linear", "factor": 0.0}),
        &["factor", "0"],
    );
    let scaling = json!({
        "type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0,
    });
    refused(
        "rope_scaling",
        scaling,
        &["high_freq_factor", "more than low_freq_factor"],
    );
}

/// A 4-bit folder with one thing changed.
#[track_caller]
fn refused_quantized(
    quantization: Value,
    edit: impl Fn(&mut BTreeMap<String, Stored>),
    words: &[&str],
) {
    let tiny = Tiny::new("llama").with("quantization", quantization);
    let folder = tempfile::tempdir().unwrap();
    tiny.write_config(folder.path());
    let mut tensors = tiny.quantized(|_| Some((4, 32)));
    edit(&mut tensors);
    write_safetensors(&folder.path().join("model.safetensors"), &tensors);
    refused(load(folder.path()), words);
}

const UP: &str = "model.layers.0.mlp.up_proj";

#[test]
fn quantization_that_contradicts_the_configuration() {
    let unchanged = |_: &mut BTreeMap<String, Stored>| {};
    let words = ["4-bit g32", "8-bit g32 by config.json"];
    refused_quantized(json!({"bits": 8, "group_size": 32}), unchanged, &words);
    refused_quantized(
        json!({"bits": 4}),
        unchanged,
        &["4-bit g32", "4-bit g64 by config.json"],
    );
    refused_quantized(
        json!(null),
        unchanged,
        &["4-bit g32", "unquantized by config.json"],
    );
    let mut block = json!({"bits": 4, "group_size": 32});
    block[UP] = json!(false);
    refused_quantized(
        block.clone(),
        unchanged,
        &[UP, "unquantized by config.json"],
    );
    block[UP] = json!({"bits": 4, "group_size": 64});
    refused_quantized(block.clone(), unchanged, &[UP, "4-bit g64 by config.json"]);
    block[UP] = json!({"bits": 4, "group_size": 32});
    let unquantize = |tensors: &mut BTreeMap<String, Stored>| {
        tensors.remove(&format!("{UP}.scales"));
    };
    refused_quantized(
        block,
        unquantize,
        &[UP, "unquantized", "4-bit g32 by config.json"],
    );
}

#[test]
fn schemes_that_mlx_does_not_know() {
    let unchanged = |_: &mut BTreeMap<String, Stored>| {};
    let words = ["bits per weight", "7", "2, 3, 4, 5, 6 or 8"];
    refused_quantized(json!({"bits": 7, "group_size": 32}), unchanged, &words);
    let words = ["group size", "48", "32, 64 or 128"];
    refused_quantized(json!({"bits": 4, "group_size": 48}), unchanged, &words);
    let mode = json!({"bits": 4, "group_size": 32, "mode": "mxfp4"});
    refused_quantized(mode, unchanged, &["mode", "mxfp4", "affine"]);
    refused_quantized(json!(4), unchanged, &["`quantization`", "an object"]);
}

#[test]
fn quantized_tensors_whose_parts_do_not_fit() {
    let edited = |part: &str, edit: fn(&mut Stored), words: &[&str]| {
        let edit = |tensors: &mut BTreeMap<String, Stored>| {
            edit(tensors.get_mut(&format!("{UP}.{part}")).unwrap());
        };
        refused_quantized(json!({"bits": 4, "group_size": 32}), edit, words);
    };
    let as_u16 = |stored: &mut Stored| stored.dtype = Dtype::U16;
    edited("scales", as_u16, &["up_proj.scales", "Uint16", "float"]);
    edited("biases", as_u16, &["up_proj.biases", "Uint16", "float"]);
    let as_f32 = |stored: &mut Stored| stored.dtype = Dtype::F32;
    edited("weight", as_f32, &["up_proj.weight", "Float32", "uint32"]);

    // up_proj is 96 x 64: 8 words and 2 groups a row.
    let reshape = |stored: &mut Stored| stored.shape = vec![192, stored.shape[1] / 2];
    edited(
        "weight",
        reshape,
        &["up_proj.weight", "[192, 4]", "96 x 64"],
    );
    edited("scales", reshape, &["scales", "[192, 1]", "96 x 64"]);
    edited("biases", reshape, &["biases", "[192, 1]", "[96, 2]"]);
    let flatten = |stored: &mut Stored| stored.shape = vec![stored.shape.iter().product()];
    edited("weight", flatten, &["up_proj.weight", "shape"]);
    let widen = |stored: &mut Stored| {
        stored.shape[1] += 1;
        stored
            .bytes
            .resize(stored.shape[0] * stored.shape[1] * 4, 0);
    };
    edited("weight", widen, &["bits per weight", "4.500", "64 columns"]);
    let coarsen = |stored: &mut Stored| {
        stored.shape[1] = 4;
        stored.bytes.resize(stored.shape[0] * 4 * 2, 0);
    };
    edited("scales", coarsen, &["group size", "16", "32, 64 or 128"]);

    let remove = |tensors: &mut BTreeMap<String, Stored>| {
        tensors.remove(&format!("{UP}.biases"));
    };
    let scheme = json!({"bits": 4, "group_size": 32});
    refused_quantized(scheme, remove, &["up_proj.biases", "missing"]);
}
