//! GGUF files that must be refused before MLX sees them.

use std::path::Path;

use mlx_model::ModelError;

use crate::gguf_bytes::GgufBytes;
use crate::tiny::{MatrixFormat, Tiny, load, load_gguf};

fn sound() -> GgufBytes {
    Tiny::new("llama").gguf(MatrixFormat::Q8_0)
}

#[track_caller]
fn refused(bytes: &[u8], words: &[&str]) -> ModelError {
    let error = load_gguf(bytes).err().expect("the file must be refused");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
    error
}

#[test]
fn the_sound_file_loads() {
    load_gguf(&sound().finish()).unwrap();
}

#[test]
fn a_missing_file() {
    let error = load(Path::new("/nowhere/model.gguf")).err().unwrap();
    assert!(matches!(&error, ModelError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("/nowhere/model.gguf"), "{error}");
}

#[test]
fn a_file_cut_anywhere() {
    let bytes = sound().finish();
    // Every part of the header, and the data.
    for length in (0..4096)
        .step_by(61)
        .chain([bytes.len() / 2, bytes.len() - 1])
    {
        let error = load_gguf(&bytes[..length]).err().unwrap();
        assert!(
            matches!(&error, ModelError::Truncated { .. }),
            "{length}: {error}"
        );
    }
}

#[test]
fn another_kind_of_file() {
    refused(
        b"PK\x03\x04 and so on, for some time",
        &["magic number", "GGUF"],
    );
    let mut file = sound();
    file.version = 1;
    refused(&file.finish(), &["version is 1", "2 or 3"]);
}

#[test]
fn counts_beyond_the_file_allocate_nothing() {
    let mut bytes = sound().finish();
    bytes[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    refused(&bytes, &["tensor directory"]);
    let mut file = sound();
    file.endless_list("general.tags");
    refused(&file.finish(), &["general.tags", "truncated"]);
}

#[test]
fn metadata_of_unknown_types() {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3u32.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(1u64.to_le_bytes());
    bytes.extend(3u64.to_le_bytes());
    bytes.extend(b"key");
    bytes.extend(77u32.to_le_bytes());
    bytes.extend([0; 64]);
    refused(&bytes, &["type of metadata `key`", "77"]);
}

#[test]
fn alignments_that_mean_something_else_to_other_readers() {
    let mut file = sound();
    file.i32s("general.alignment", &[32]);
    refused(
        &file.finish(),
        &["type of metadata `general.alignment`", "9", "uint32"],
    );
    for value in [0, 12] {
        let mut file = sound();
        file.u32("general.alignment", value);
        refused(&file.finish(), &["general.alignment is", "a multiple of 8"]);
    }
    let mut file = sound();
    file.u32("general.alignment", 32);
    load_gguf(&file.finish()).unwrap();
    file.repeat("general.alignment");
    refused(&file.finish(), &["general.alignment", "listed twice"]);
}

#[test]
fn no_changed_byte_of_the_header_brings_the_loader_down() {
    let file = sound().finish();
    let header = file.len() - 2 * 96 * 64;
    let mut loaded = 0;
    for (round, position) in (4..header.min(3000)).step_by(7).enumerate() {
        let mut bytes = file.clone();
        bytes[position] ^= 1 << (round % 8);
        // An error or a model, whichever: what matters is that the process is still here.
        loaded += u32::from(load_gguf(&bytes).is_ok());
    }
    assert!(loaded > 0, "some changes do no harm");
}

#[test]
fn tensors_that_do_not_fit_their_entries() {
    let edit = |edit: fn(&mut Vec<usize>, &mut u32)| {
        let mut file = sound();
        file.edit_tensor("blk.0.attn_q.weight", edit);
        file.finish()
    };
    refused(
        &edit(|_, code| *code = 14),
        &["type of tensor `blk.0.attn_q.weight`", "14"],
    );
    refused(
        &edit(|shape, _| shape[1] = 33),
        &["row length", "33", "multiple of 32"],
    );
    refused(&edit(|shape, _| shape[0] = 1 << 40), &["shape", "2^31"]);
    refused(&edit(|shape, _| shape[0] = 0), &["shape"]);
    refused(
        &edit(|shape, _| *shape = vec![2, 2, 2, 2, 32]),
        &["dimension count", "5"],
    );
    refused(
        &edit(|shape, _| shape[0] = 1 << 20),
        &["blk.0.attn_q.weight", "truncated"],
    );
}

#[test]
fn a_tensor_missing_or_of_another_shape() {
    let mut file = sound();
    file.remove_tensor("blk.1.ffn_up.weight");
    let error = refused(&file.finish(), &["model.layers.1.mlp.up_proj.weight"]);
    assert!(matches!(error, ModelError::MissingTensor { .. }));

    let mut file = sound();
    file.edit_tensor("blk.1.attn_norm.weight", |shape, _| shape[0] = 32);
    let error = refused(
        &file.finish(),
        &["model.layers.1.input_layernorm.weight", "[32]", "[64]"],
    );
    assert!(matches!(error, ModelError::TensorShape { .. }));

    let mut file = sound();
    file.edit_tensor("blk.0.ffn_up.weight", |shape, _| shape[0] = 64);
    let error = refused(&file.finish(), &["model.layers.0.mlp.up_proj.weight", "96"]);
    assert!(matches!(error, ModelError::Quantization { .. }));
}

#[test]
fn an_unknown_architecture_and_missing_keys() {
    let mut file = GgufBytes::new();
    file.text("general.architecture", "mamba");
    refused(&file.finish(), &["`mamba`", "llama, qwen2 or qwen3"]);

    let mut file = GgufBytes::new();
    file.u32("general.architecture", 3);
    refused(&file.finish(), &["general.architecture", "missing"]);

    let mut file = GgufBytes::new();
    file.text("general.architecture", "llama");
    refused(&file.finish(), &["llama.embedding_length", "missing"]);

    let mut file = sound();
    file.text("llama.rope.scaling.type", "longrope");
    refused(&file.finish(), &["`longrope`", "none, linear or yarn"]);
}

#[test]
fn period_factors_come_from_their_tensor() {
    let mut file = sound();
    let factors: Vec<u8> = (1..=8u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    file.tensor("rope_freqs.weight", &[8], 0, factors);
    let model = load_gguf(&file.finish()).unwrap();
    let periods = model.config().rope.periods().unwrap();
    assert_eq!((periods[0], periods.len()), (1.0, 8));
    assert!((f64::from(periods[7]) - 8.0 * 10_000f64.powf(14.0 / 16.0)).abs() < 0.1);

    let mut file = sound();
    file.tensor("rope_freqs.weight", &[2], 0, vec![0; 8]);
    refused(&file.finish(), &["rotary period factors", "2", "8"]);
}
