//! Folders that mix trellis, affine and dense tensors.

use std::collections::BTreeMap;
use std::path::Path;

use mlx_kernels::{Backend, Context};
use mlx_model::kernels::{Dense, Extension, Stock};
use mlx_model::{Kernels, Model, Pass, Usage};
use mlx_rs::Dtype;
use safetensors::View;
use serde_json::{Value, json};
use tempfile::TempDir;
use trellis_codec::{Axis, Contract, Encoder, Format, Layout};

use crate::tiny::{Stored, Tensor, Tiny, load, loaded, write_safetensors};

const TOKENS: [u32; 7] = [3, 250, 17, 64, 9, 101, 271];

/// Writes `tiny` with its MLP and v projections in trellis codes, the embedding affine and the rest
/// dense. Returns the same model with each coded matrix replaced by what its codes mean, and the
/// config's table.
fn write_coded(tiny: &Tiny, folder: &Path) -> (Tiny, Value) {
    let mut decoded = tiny.clone();
    let mut table = json!({"bits": 8, "group_size": 64});
    let mut stored = tiny.quantized(|path| (path == "model.embed_tokens").then_some((8, 64)));
    for (name, tensor) in &tiny.tensors {
        let path = name.strip_suffix(".weight").unwrap_or(name);
        let axis = match path.rsplit('.').next() {
            Some("down_proj") => Axis::Output,
            Some("gate_proj" | "up_proj" | "v_proj") => Axis::Input,
            _ => continue,
        };
        let (rows, columns) = (tensor.shape[0], tensor.shape[1]);
        let coded_columns = if axis == Axis::Output { rows } else { columns };
        let encoder = Encoder::new(Format::fitting(3, 12, coded_columns).unwrap());
        let encoded = encoder
            .encode_weight(&tensor.values, rows, columns, axis, Layout::Rows)
            .unwrap();
        for (name, part) in encoded.module.tensors(path) {
            stored.insert(
                name,
                Stored {
                    dtype: part.dtype(),
                    shape: part.shape().to_vec(),
                    bytes: part.data().into_owned(),
                },
            );
        }
        table[path] = encoded.module.geometry().entry().to_json();
        let matrix = encoded.module.decode(Contract::Exact).unwrap();
        let values = match axis {
            Axis::Input => matrix,
            Axis::Output => (0..rows * columns)
                .map(|i| matrix[i % columns * rows + i / columns])
                .collect(),
        };
        let shape = tensor.shape.clone();
        decoded
            .tensors
            .insert(name.clone(), Tensor { shape, values });
    }
    tiny.clone()
        .with("quantization", table.clone())
        .write_config(folder);
    write_safetensors(&folder.join("model.safetensors"), &stored);
    (decoded, table)
}

fn logits(model: &Model, kernels: &dyn Kernels, usage: Option<&Usage>) -> Vec<f32> {
    let pass = Pass {
        kernels,
        usage,
        statistics: None,
    };
    let logits = model
        .forward(&TOKENS, &mut model.new_cache(), pass)
        .unwrap();
    logits.to_vec_cast::<f32>().unwrap()
}

fn extension(backend: Backend) -> Extension {
    Extension::new(Context::new(backend).unwrap())
}

#[test]
fn every_set_of_kernels_computes_the_decoded_model() {
    for architecture in ["llama", "qwen2", "qwen3"] {
        let folder = tempfile::tempdir().unwrap();
        let (decoded, _) = write_coded(&Tiny::new(architecture), folder.path());
        let model = load(folder.path()).unwrap();
        // The table is affine in the folder, which an affine copy of the decoded model has too.
        let reference = tempfile::tempdir().unwrap();
        decoded.write_quantized_folder(reference.path(), |path| {
            (path == "model.embed_tokens").then_some((8, 64))
        });
        let config = decoded
            .clone()
            .with("quantization", json!({"bits": 8, "group_size": 64}));
        config.write_config(reference.path());
        let expected = logits(&load(reference.path()).unwrap(), &Dense::float64(), None);

        let dense = Dense::float64();
        let (cpu, sim) = (extension(Backend::Cpu), extension(Backend::Sim));
        for kernels in [&Stock as &dyn Kernels, &dense, &cpu, &sim] {
            let found = logits(&model, kernels, None);
            for (found, expected) in found.iter().zip(&expected) {
                assert!(
                    (found - expected).abs() <= 1e-4 * (1.0 + expected.abs()),
                    "{architecture} {}: {found} {expected}",
                    kernels.name()
                );
            }
        }
    }
}

#[test]
fn usage_names_format_and_kernel() {
    let folder = tempfile::tempdir().unwrap();
    write_coded(&Tiny::new("llama"), folder.path());
    let model = load(folder.path()).unwrap();
    for (kernels, name) in [
        (&extension(Backend::Cpu) as &dyn Kernels, "cpu simd trellis"),
        (&extension(Backend::Sim), "expand + mlx matmul"),
        (&Stock, "decode + mlx float32 matmul"),
        (&Dense::float64(), "float64 sums"),
    ] {
        let usage = Usage::default();
        logits(&model, kernels, Some(&usage));
        let lines = usage.lines();
        let line = |layer: &str| {
            lines
                .iter()
                .find(|line| line.layer.name() == layer)
                .unwrap()
        };
        assert_eq!(line("down_proj").weights, "3-bit trellis T64 axis 0");
        assert_eq!(line("up_proj").weights, "3-bit trellis T64 axis 1");
        assert_eq!(line("down_proj").kernel, name);
        assert_eq!(line("down_proj").layers, 2);
        assert_eq!(line("q_proj").weights, "float32");
    }
}

#[test]
fn codes_are_expanded_when_loading_if_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    write_coded(&Tiny::new("llama"), folder.path());
    let options = mlx_model::LoadOptions {
        dtype: Some(Dtype::Float32),
        expand_trellis: true,
    };
    // 96 input features are no whole groups of 64.
    let error = Model::load(folder.path(), options)
        .err()
        .unwrap()
        .to_string();
    for word in ["down_proj", "96", "64"] {
        assert!(error.contains(word), "{error:?} does not say {word:?}");
    }

    write_coded(&Tiny::new("llama").with_inner(128), folder.path());
    let expanded = Model::load(folder.path(), options).unwrap();
    let usage = Usage::default();
    let found = logits(&expanded, &Stock, Some(&usage));
    for line in usage.lines() {
        assert!(!line.weights.contains("trellis"), "{line:?}");
    }
    let expected = logits(&load(folder.path()).unwrap(), &Stock, None);
    let apart = |a: &f32, b: &f32| (a - b).abs();
    assert!(found.iter().zip(&expected).all(|(a, b)| apart(a, b) < 0.1));
}

#[test]
fn a_coded_model_can_be_requantized() {
    let folder = tempfile::tempdir().unwrap();
    let (decoded, _) = write_coded(&Tiny::new("llama"), folder.path());
    let scheme = mlx_model::config::QuantizationScheme::new(8, 32).unwrap();
    let model = load(folder.path()).unwrap().requantize(scheme).unwrap();
    let expected = logits(&loaded(&decoded), &Dense::float64(), None);
    let found = logits(&model, &Stock, None);
    let apart = |a: &f32, b: &f32| (a - b).abs();
    assert!(found.iter().zip(&expected).all(|(a, b)| apart(a, b) < 0.2));
}

/// The folder of a coded model with its table or its tensors changed, which must be refused.
#[track_caller]
fn refused(change: impl FnOnce(&mut Value, &mut BTreeMap<String, Stored>), words: &[&str]) {
    let tiny = Tiny::new("llama");
    let folder: TempDir = tempfile::tempdir().unwrap();
    let (_, mut table) = write_coded(&tiny, folder.path());
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let mut tensors: BTreeMap<String, Stored> = safetensors::SafeTensors::deserialize(&bytes)
        .unwrap()
        .iter()
        .map(|(name, view)| {
            let stored = Stored {
                dtype: view.dtype(),
                shape: view.shape().to_vec(),
                bytes: view.data().to_vec(),
            };
            (name.to_owned(), stored)
        })
        .collect();
    change(&mut table, &mut tensors);
    tiny.with("quantization", table).write_config(folder.path());
    write_safetensors(&path, &tensors);
    let error = load(folder.path())
        .err()
        .expect("must be refused")
        .to_string();
    for word in words {
        assert!(error.contains(word), "{error:?} does not say {word:?}");
    }
}

#[test]
fn entries_that_contradict_the_tensors_are_refused() {
    const UP: &str = "model.layers.1.mlp.up_proj";
    let scales = format!("{UP}.scales");
    refused(|table, _| table[UP]["bits"] = json!(4), &[UP, "48", "64"]);
    refused(
        |table, _| table[UP]["trellis"]["code"] = json!("hyb"),
        &[UP, "hyb", "1mad"],
    );
    refused(
        |table, _| table[UP]["trellis"]["axis"] = json!(0),
        &[UP, "64 x 96", "96 x 64"],
    );
    refused(
        |table, _| table[UP]["mode"] = json!("nf4"),
        &[UP, "nf4", "affine"],
    );
    refused(
        |table, _| table[UP] = json!({"bits": 3, "group_size": 64, "mode": "trellis"}),
        &[UP, "missing"],
    );
    refused(
        |_, tensors| drop(tensors.remove(&scales)),
        &[&scales, "missing"],
    );
    let dense = format!("{UP}.weight");
    refused(
        |_, tensors| {
            let zeros = Tensor {
                shape: vec![96, 64],
                values: vec![0.0; 96 * 64],
            };
            tensors.insert(dense.clone(), Stored::f32(&zeros));
        },
        &[UP, "Float32", "uint32"],
    );
    refused(
        |table, _| {
            let entry = table[UP].clone();
            table["model.embed_tokens"] = entry;
        },
        &["model.embed_tokens"],
    );
    // Without its entry, a coded tensor is a malformed affine one.
    refused(
        |table, _| drop(table.as_object_mut().unwrap().remove(UP)),
        &[UP],
    );
}

#[test]
fn scales_keep_their_type() {
    let folder = tempfile::tempdir().unwrap();
    write_coded(&Tiny::new("llama"), folder.path());
    let options = mlx_model::LoadOptions {
        dtype: Some(Dtype::Bfloat16),
        ..Default::default()
    };
    let narrow = Model::load(folder.path(), options).unwrap();
    assert_eq!(narrow.dtype(), Dtype::Bfloat16);
    let (wide, kernels) = (load(folder.path()).unwrap(), extension(Backend::Cpu));
    let (narrow, wide) = (
        logits(&narrow, &kernels, None),
        logits(&wide, &kernels, None),
    );
    assert!(narrow.iter().zip(&wide).all(|(a, b)| (a - b).abs() < 0.3));
}
