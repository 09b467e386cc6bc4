//! Writing models anew in trellis codes and in MLX's affine mode.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use mlx_model::kernels::Dense;
use mlx_model::quantize::{Mode, QuantizeOptions, Summary, quantize};
use mlx_model::{Model, ModelError, Pass, Usage};
use safetensors::SafeTensors;
use serde_json::Value;
use trellis_codec::Axis;

use crate::tiny::{MatrixFormat, Tiny, load};

const TRELLIS: Mode = Mode::Trellis {
    down_axis: Axis::Output,
    interleave: false,
    rotation: None,
    calibration: None,
};

fn options(mode: Mode, bits: u32) -> QuantizeOptions {
    QuantizeOptions {
        mode,
        bits,
        bits_for: Vec::new(),
    }
}

fn run(input: &Path, output: &Path, options: &QuantizeOptions) -> mlx_model::Result<Summary> {
    quantize(input, output, options, &mut |_| ())
}

/// Quantizes a folder of `tiny`; the folders are `in` and `out`.
fn quantized(tiny: &Tiny, options: &QuantizeOptions) -> (tempfile::TempDir, Summary) {
    let root = tempfile::tempdir().unwrap();
    let input = root.path().join("in");
    fs::create_dir(&input).unwrap();
    tiny.write_folder(&input);
    let summary = run(&input, &root.path().join("out"), options).unwrap();
    (root, summary)
}

fn logits(model: &Model) -> Vec<f32> {
    let kernels = Dense::float64();
    let tokens = [3, 250, 17, 64, 9, 101, 271];
    let logits = model
        .forward(&tokens, &mut model.new_cache(), Pass::new(&kernels))
        .unwrap();
    logits.to_vec_cast::<f32>().unwrap()
}

fn apart(a: &[f32], b: &[f32]) -> f32 {
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f32::max)
}

#[test]
fn a_coded_folder_loads_and_is_what_the_summary_says() {
    let tiny = Tiny::new("llama").untied();
    let (root, summary) = quantized(&tiny, &options(TRELLIS, 3));
    let output = root.path().join("out");
    assert!(!root.path().join("out.partial").exists());
    let size = |kind: &str| {
        let found = summary.kinds.iter().find(|summary| summary.kind == kind);
        found.unwrap()
    };
    // Bits and a float16 scale for each row: of 64 inputs, or along 64 outputs.
    assert_eq!(size("up_proj").bits_per_weight, 3.0 + 16.0 / 64.0);
    assert_eq!(size("down_proj").format, "trellis 3-bit T64 axis 0");
    assert_eq!(size("down_proj").layers, 2);
    assert_eq!(summary.shortest_block, Some(64));
    assert_eq!(summary.matrices, 2 * 7 + 2);
    assert_eq!(summary.resumed, 0);
    for kind in &summary.kinds {
        let error = kind.relative_error.unwrap();
        assert!(error > 0.0 && error < 0.03, "{kind:?}");
    }
    assert_eq!(size("embed_tokens").format, "affine 8-bit, was dense");

    let bytes = fs::read(output.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let data: usize = tensors.iter().map(|(_, view)| view.data().len()).sum();
    assert_eq!(data, summary.bytes);
    let model = load(&output).unwrap();
    let usage = Usage::default();
    let (kernels, mut cache) = (Dense::float64(), model.new_cache());
    let pass = Pass {
        kernels: &kernels,
        usage: Some(&usage),
        statistics: None,
    };
    model.forward(&[1, 2], &mut cache, pass).unwrap();
    let head = usage.lines().into_iter().last().unwrap();
    assert_eq!(head.weights, "8-bit g64");
}

#[test]
fn more_bits_are_nearer_to_the_original() {
    for mode in [TRELLIS, Mode::Affine { group_size: 32 }] {
        let tiny = Tiny::new("qwen3");
        let results = [2, 4, 8].map(|bits| {
            let (root, summary) = quantized(&tiny, &options(mode.clone(), bits));
            let original = logits(&load(&root.path().join("in")).unwrap());
            let coded = logits(&load(&root.path().join("out")).unwrap());
            (apart(&original, &coded), summary.kinds[0].relative_error)
        });
        for pair in results.windows(2) {
            assert!(pair[0] > pair[1], "{mode:?}: {results:?}");
        }
    }
}

#[test]
fn a_gguf_file_and_a_folder_of_one_model_become_the_same() {
    // Llama's q and k rows are in another order in GGUF files; each is coded by itself.
    for architecture in ["llama", "qwen2", "qwen3"] {
        let tiny = Tiny::new(architecture);
        let (root, _) = quantized(&tiny, &options(TRELLIS, 3));
        let input = root.path().join("model.gguf");
        fs::write(&input, tiny.gguf(MatrixFormat::F16).finish()).unwrap();
        let output = root.path().join("of_gguf");
        run(&input, &output, &options(TRELLIS, 3)).unwrap();
        let expected = logits(&load(&root.path().join("out")).unwrap());
        let distance = apart(&expected, &logits(&load(&output).unwrap()));
        assert!(distance < 1e-4, "{architecture}: {distance}");
    }
}

#[test]
fn a_quantized_table_stays_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let input = root.path().join("model.gguf");
    let tiny = Tiny::new("llama");
    fs::write(&input, tiny.gguf(MatrixFormat::Q8_0).finish()).unwrap();
    let output = root.path().join("out");
    let summary = run(&input, &output, &options(TRELLIS, 3)).unwrap();
    let table = summary.kinds.last().unwrap();
    assert_eq!(table.format, "as in the source");
    // Groups of 32, each with two float16 numbers.
    assert_eq!(table.bits_per_weight, 9.0);
    assert_eq!(table.relative_error, None);
    load(&output).unwrap();
}

#[test]
fn patterns_and_axes_choose_per_layer() {
    let mode = Mode::Trellis {
        down_axis: Axis::Input,
        interleave: false,
        rotation: None,
        calibration: None,
    };
    let options = QuantizeOptions {
        mode,
        bits: 2,
        bits_for: vec![("*.down_proj".into(), 3), ("*.1.mlp.*".into(), 4)],
    };
    let (root, _) = quantized(&Tiny::new("llama"), &options);
    let config = fs::read(root.path().join("out/config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let entry = |layer: &str| config["quantization"][format!("model.layers.{layer}")].clone();
    assert_eq!(entry("0.mlp.up_proj")["bits"], 2);
    assert_eq!(entry("0.mlp.down_proj")["bits"], 3);
    assert_eq!(entry("1.mlp.down_proj")["bits"], 4);
    assert_eq!(entry("0.mlp.down_proj")["group_size"], 96);
    assert_eq!(entry("0.mlp.down_proj")["trellis"]["axis"], 1);
    load(&root.path().join("out")).unwrap();
}

#[test]
fn interleaving_needs_whole_pairs_of_blocks() {
    let root = tempfile::tempdir().unwrap();
    Tiny::new("llama").write_folder(root.path());
    let mode = Mode::Trellis {
        down_axis: Axis::Output,
        interleave: true,
        rotation: None,
        calibration: None,
    };
    // 64 outputs are one block.
    let error = run(root.path(), &root.path().join("out"), &options(mode, 3)).unwrap_err();
    assert!(error.to_string().contains("down_proj"), "{error}");
    assert!(!root.path().join("out.partial").exists());
}

#[test]
fn an_interrupted_run_goes_on_and_gives_the_same_bytes() {
    let tiny = Tiny::new("llama");
    let options = options(TRELLIS, 2);
    let (root, _) = quantized(&tiny, &options);
    let (input, output) = (root.path().join("in"), root.path().join("again"));
    let interrupted = catch_unwind(AssertUnwindSafe(|| {
        let mut steps = 0;
        quantize(&input, &output, &options, &mut |_| {
            steps += 1;
            assert!(steps < 4, "interrupted");
        })
    }));
    assert!(interrupted.is_err() && !output.exists());
    let partial = root.path().join("again.partial");
    // What a crash in the middle of a write leaves is not taken for a part.
    fs::write(
        partial.join("model.layers.0.self_attn.o_proj.safetensors.new"),
        "x",
    )
    .unwrap();

    let other = QuantizeOptions {
        bits: 3,
        ..options.clone()
    };
    let error = run(&input, &output, &other).unwrap_err();
    assert!(matches!(error, ModelError::Resume { .. }));
    let text = error.to_string();
    assert!(text.contains("bits: 2, not 3"), "{text}");
    let elsewhere = root.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    tiny.write_folder(&elsewhere);
    let error = run(&elsewhere, &output, &options).unwrap_err().to_string();
    assert!(error.contains("input, path"), "{error}");

    let mut resumed = Vec::new();
    let summary = quantize(&input, &output, &options, &mut |step| {
        resumed.push(step.resumed);
    })
    .unwrap();
    assert_eq!(summary.resumed, 4);
    assert_eq!(resumed.iter().filter(|resumed| **resumed).count(), 4);
    assert!(!partial.exists());
    for file in ["model.safetensors", "config.json"] {
        let read = |folder: &str| fs::read(root.path().join(folder).join(file)).unwrap();
        assert!(read("out") == read("again"), "{file}");
    }
}

#[test]
fn one_process_at_a_time() {
    let root = tempfile::tempdir().unwrap();
    Tiny::new("llama").write_folder(root.path());
    let (output, options) = (root.path().join("out"), options(TRELLIS, 2));
    let mut inner = None;
    quantize(root.path(), &output, &options, &mut |_| {
        inner.get_or_insert_with(|| run(root.path(), &output, &options));
    })
    .unwrap();
    assert!(matches!(inner, Some(Err(ModelError::Busy { .. }))));
}

#[test]
fn refusals_leave_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let input = root.path().join("in");
    fs::create_dir(&input).unwrap();
    Tiny::new("llama").write_folder(&input);
    let output = root.path().join("out");
    let refused = |options: &QuantizeOptions, output: &Path, words: &[&str]| {
        let error = run(&input, output, options).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{error:?} does not say {word:?}");
        }
        assert!(!root.path().join("out.partial").exists());
    };
    refused(&options(TRELLIS, 9), &output, &["9", "1 to 8"]);
    refused(&options(TRELLIS, 0), &output, &["0 bits"]);
    let affine = |group_size| Mode::Affine { group_size };
    refused(
        &options(affine(64), 7),
        &output,
        &["7", "2, 3, 4, 5, 6 or 8"],
    );
    refused(&options(affine(48), 4), &output, &["48"]);
    refused(&options(affine(64), 4), &output, &["down_proj", "96", "64"]);
    let unmatched = QuantizeOptions {
        bits_for: vec![("*.nothing".into(), 3)],
        ..options(TRELLIS, 3)
    };
    refused(&unmatched, &output, &["*.nothing"]);
    refused(&options(TRELLIS, 3), &input, &["in", "exists"]);
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    refused(
        &options(TRELLIS, 3),
        &file.join("out"),
        &["cannot be written"],
    );
    assert_eq!(fs::read(&file).unwrap(), b"");
}

#[test]
fn weights_that_are_not_finite_are_named_and_nothing_is_published() {
    for (mode, name) in [
        (TRELLIS, "model.layers.1.mlp.up_proj"),
        (
            Mode::Affine { group_size: 32 },
            "model.layers.1.mlp.up_proj",
        ),
    ] {
        let mut tiny = Tiny::new("llama");
        let weight = tiny.tensors.get_mut(&format!("{name}.weight")).unwrap();
        weight.values[70] = f32::NAN;
        let root = tempfile::tempdir().unwrap();
        tiny.write_folder(root.path());
        let output = root.path().join("out");
        let error = run(root.path(), &output, &options(mode, 4)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("NaN"), "{text}");
        assert!(!output.exists());
    }
}

/// Trellis codes in a rotated basis, with error feedback from a few windows.
fn improved(seed: u64) -> Mode {
    let window = |start: u32| (0..40).map(|i| (start + i * i * 7) % 270).collect();
    Mode::Trellis {
        down_axis: Axis::Output,
        interleave: false,
        rotation: Some(seed),
        calibration: Some((0..8).map(|i| window(i * 31)).collect()),
    }
}

#[test]
fn a_rotated_model_is_the_same_model() {
    // At 8 affine bits the rounding is small; what is left is far below what a wrong basis would do.
    for architecture in ["llama", "qwen2", "qwen3"] {
        let mode = Mode::Trellis {
            down_axis: Axis::Output,
            interleave: false,
            rotation: Some(3),
            calibration: None,
        };
        let (root, summary) = quantized(&Tiny::new(architecture), &options(mode, 8));
        let original = logits(&load(&root.path().join("in")).unwrap());
        let coded = logits(&load(&root.path().join("out")).unwrap());
        let scale = original.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
        let distance = apart(&original, &coded);
        assert!(
            distance < 0.08 * scale,
            "{architecture}: {distance} of {scale}"
        );
        assert!(summary.tripped.is_empty());
    }
}

#[test]
fn a_calibrated_run_resumes_to_the_same_bytes() {
    let tiny = Tiny::new("llama");
    let options = options(improved(3), 3);
    let (root, _) = quantized(&tiny, &options);
    let (input, output) = (root.path().join("in"), root.path().join("again"));
    let interrupted = catch_unwind(AssertUnwindSafe(|| {
        let mut steps = 0;
        quantize(&input, &output, &options, &mut |_| {
            steps += 1;
            assert!(steps < 9, "interrupted");
        })
    }));
    assert!(interrupted.is_err());
    let other = QuantizeOptions {
        mode: improved(4),
        ..options.clone()
    };
    let error = run(&input, &output, &other).unwrap_err().to_string();
    assert!(error.contains("rotation: 3, not 4"), "{error}");
    run(&input, &output, &options).unwrap();
    for file in ["model.safetensors", "config.json"] {
        let read = |folder: &str| fs::read(root.path().join(folder).join(file)).unwrap();
        assert!(read("out") == read("again"), "{file}");
    }
    // What is rotated once is not rotated again.
    let error = run(
        &root.path().join("out"),
        &root.path().join("twice"),
        &options,
    );
    assert!(error.unwrap_err().to_string().contains("rotated already"));
}
