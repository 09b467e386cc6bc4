//! A tiny model with made-up weights, written out in every format that is loaded.

use std::collections::BTreeMap;
use std::path::Path;

use half::f16;
use mlx_model::{LoadOptions, Model};
use mlx_rs::{Array, Dtype, ops};
use safetensors::tensor::{Dtype as StoredDtype, TensorView};
use serde_json::{Value, json};

use crate::gguf_bytes::{GgufBytes, q4_1, q8_0};

pub const HIDDEN: usize = 64;
pub const INNER: usize = 96;
pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
pub const HEAD_DIM: usize = 16;
pub const LAYERS: usize = 2;
pub const VOCABULARY: usize = 272;
pub const CONTEXT: usize = 48;

/// A row-major float32 tensor.
#[derive(Clone)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

/// A model: its `config.json`, and its tensors under Hugging Face's names.
#[derive(Clone)]
pub struct Tiny {
    pub config: Value,
    pub tensors: BTreeMap<String, Tensor>,
}

/// Multiples of 1/64 in a small range: exact in every float type, sums of products in float32.
fn values(count: usize, seed: usize) -> Vec<f32> {
    let mut state = seed as u64 * 2_654_435_761 + 12_345;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) % 33) as f32 / 64.0 - 0.25
    };
    (0..count).map(|_| next()).collect()
}

impl Tiny {
    /// A model of the given `model_type`.
    pub fn new(architecture: &str) -> Self {
        let config = json!({
            "model_type": architecture,
            "hidden_size": HIDDEN,
            "num_hidden_layers": LAYERS,
            "intermediate_size": INNER,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "vocab_size": VOCABULARY,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "max_position_embeddings": CONTEXT,
            "tie_word_embeddings": true,
            "eos_token_id": 258,
        });
        let mut tiny = Self {
            config,
            tensors: BTreeMap::new(),
        };
        let (queries, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
        tiny.matrix("model.embed_tokens", VOCABULARY, HIDDEN);
        tiny.norm("model.norm", HIDDEN);
        for layer in 0..LAYERS {
            let path = |name: &str| format!("model.layers.{layer}.{name}");
            tiny.norm(&path("input_layernorm"), HIDDEN);
            tiny.norm(&path("post_attention_layernorm"), HIDDEN);
            for (name, rows) in [("q_proj", queries), ("k_proj", kv), ("v_proj", kv)] {
                let path = path(&format!("self_attn.{name}"));
                tiny.matrix(&path, rows, HIDDEN);
                if architecture == "qwen2" {
                    tiny.add(format!("{path}.bias"), vec![rows]);
                }
            }
            tiny.matrix(&path("self_attn.o_proj"), HIDDEN, queries);
            if architecture == "qwen3" {
                tiny.norm(&path("self_attn.q_norm"), HEAD_DIM);
                tiny.norm(&path("self_attn.k_norm"), HEAD_DIM);
            }
            tiny.matrix(&path("mlp.gate_proj"), INNER, HIDDEN);
            tiny.matrix(&path("mlp.up_proj"), INNER, HIDDEN);
            tiny.matrix(&path("mlp.down_proj"), HIDDEN, INNER);
        }
        tiny
    }

    /// The same with a key of `config.json` set; `null` takes it out.
    pub fn with(mut self, key: &str, value: Value) -> Self {
        let fields = self.config.as_object_mut().unwrap();
        if value.is_null() {
            fields.remove(key);
        } else {
            fields.insert(key.to_owned(), value);
        }
        self
    }

    /// The same with MLPs of another inner width.
    pub fn with_inner(mut self, inner: usize) -> Self {
        for layer in 0..LAYERS {
            for (name, [rows, columns]) in [
                ("gate_proj", [inner, HIDDEN]),
                ("up_proj", [inner, HIDDEN]),
                ("down_proj", [HIDDEN, inner]),
            ] {
                self.matrix(&format!("model.layers.{layer}.mlp.{name}"), rows, columns);
            }
        }
        self.with("intermediate_size", json!(inner))
    }

    /// The same with an output head of its own.
    pub fn untied(mut self) -> Self {
        self.matrix("lm_head", VOCABULARY, HIDDEN);
        self.with("tie_word_embeddings", json!(false))
    }

    fn matrix(&mut self, path: &str, rows: usize, columns: usize) {
        self.add(format!("{path}.weight"), vec![rows, columns]);
    }

    fn norm(&mut self, path: &str, width: usize) {
        self.add(format!("{path}.weight"), vec![width]);
        let tensor = self.tensors.get_mut(&format!("{path}.weight")).unwrap();
        tensor.values.iter_mut().for_each(|value| *value += 1.0);
    }

    fn add(&mut self, name: String, shape: Vec<usize>) {
        let values = values(shape.iter().product(), self.tensors.len() + 1);
        self.tensors.insert(name, Tensor { shape, values });
    }

    /// Whether MLX folders and GGUF files quantize this tensor.
    fn is_matrix(name: &str, tensor: &Tensor) -> bool {
        tensor.shape.len() == 2 && name.ends_with(".weight")
    }

    /// Writes `config.json` and one float32 safetensors file.
    pub fn write_folder(&self, folder: &Path) {
        self.write_config(folder);
        let tensors = self
            .tensors
            .iter()
            .map(|(name, tensor)| (name.clone(), Stored::f32(tensor)));
        write_safetensors(&folder.join("model.safetensors"), &tensors.collect());
    }

    /// Writes an MLX folder whose matrices are quantized by `scheme`: bits and group size by path.
    pub fn write_quantized_folder(
        &self,
        folder: &Path,
        scheme: impl Fn(&str) -> Option<(i32, i32)>,
    ) {
        self.write_config(folder);
        write_safetensors(&folder.join("model.safetensors"), &self.quantized(scheme));
    }

    pub fn write_config(&self, folder: &Path) {
        std::fs::write(folder.join("config.json"), self.config.to_string()).unwrap();
    }

    pub fn quantized(
        &self,
        scheme: impl Fn(&str) -> Option<(i32, i32)>,
    ) -> BTreeMap<String, Stored> {
        let mut stored = BTreeMap::new();
        for (name, tensor) in &self.tensors {
            let path = name.strip_suffix(".weight").unwrap_or(name);
            match scheme(path).filter(|_| Self::is_matrix(name, tensor)) {
                None => {
                    stored.insert(name.clone(), Stored::f32(tensor));
                }
                Some((bits, group_size)) => {
                    let shape = [tensor.shape[0] as i32, tensor.shape[1] as i32];
                    let matrix = Array::from_slice(&tensor.values, &shape);
                    let (packed, scales, biases) =
                        ops::quantize(&matrix, group_size, bits).unwrap();
                    stored.insert(name.clone(), Stored::u32(&packed));
                    stored.insert(format!("{path}.scales"), Stored::f16(&scales));
                    stored.insert(format!("{path}.biases"), Stored::f16(&biases));
                }
            }
        }
        stored
    }

    /// The same with every matrix rounded to what its GGUF block format can hold.
    pub fn rounded_to(&self, format: MatrixFormat) -> Self {
        let mut tiny = self.clone();
        for (name, tensor) in &mut tiny.tensors {
            if Self::is_matrix(name, tensor) {
                for block in tensor.values.chunks_exact_mut(32) {
                    format.round(block);
                }
            }
        }
        tiny
    }

    /// The GGUF file of this model, with matrices in `format` and whatever `metadata` adds.
    pub fn gguf(&self, format: MatrixFormat) -> GgufBytes {
        let architecture = self.config["model_type"].as_str().unwrap();
        let mut file = GgufBytes::new();
        file.text("general.architecture", architecture);
        for (key, value) in [
            ("block_count", LAYERS),
            ("context_length", CONTEXT),
            ("embedding_length", HIDDEN),
            ("feed_forward_length", INNER),
            ("attention.head_count", HEADS),
            ("attention.head_count_kv", KV_HEADS),
            ("rope.dimension_count", HEAD_DIM),
        ] {
            file.u32(&format!("{architecture}.{key}"), value as u32);
        }
        file.f32(
            &format!("{architecture}.attention.layer_norm_rms_epsilon"),
            1e-5,
        );
        file.u32("tokenizer.ggml.eos_token_id", 258);
        for (name, tensor) in &self.tensors {
            let mut tensor = tensor.clone();
            if architecture == "llama" {
                if name.ends_with("q_proj.weight") {
                    tensor = interleave_halves(&tensor, HEADS);
                } else if name.ends_with("k_proj.weight") {
                    tensor = interleave_halves(&tensor, KV_HEADS);
                }
            }
            let kind = if Self::is_matrix(name, &tensor) {
                format
            } else {
                MatrixFormat::F32
            };
            file.tensor(
                &gguf_name(name),
                &tensor.shape,
                kind.code(),
                kind.encode(&tensor.values),
            );
        }
        file
    }
}

/// How converters to GGUF order the q and k rows of Llama: rotated pairs next to each other.
fn interleave_halves(tensor: &Tensor, heads: usize) -> Tensor {
    let columns = tensor.shape[1];
    let width = tensor.shape[0] / heads;
    let mut values = Vec::with_capacity(tensor.values.len());
    for head in 0..heads {
        for pair in 0..width / 2 {
            for half in 0..2 {
                let row = head * width + half * width / 2 + pair;
                values.extend_from_slice(&tensor.values[row * columns..][..columns]);
            }
        }
    }
    Tensor {
        shape: tensor.shape.clone(),
        values,
    }
}

fn gguf_name(name: &str) -> String {
    [
        ("model.layers.", "blk."),
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ]
    .iter()
    .fold(name.to_owned(), |name, (theirs, gguf)| {
        name.replace(theirs, gguf)
    })
}

/// How a GGUF file holds matrices.
#[derive(Clone, Copy, PartialEq)]
pub enum MatrixFormat {
    F32,
    F16,
    Q4_1,
    Q8_0,
}

impl MatrixFormat {
    fn code(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_1 => 3,
            Self::Q8_0 => 8,
        }
    }

    fn encode(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
            Self::F16 => values
                .iter()
                .flat_map(|v| f16::from_f32(*v).to_le_bytes())
                .collect(),
            Self::Q4_1 => values
                .chunks_exact(32)
                .flat_map(|block| q4_1(block).0)
                .collect(),
            Self::Q8_0 => values
                .chunks_exact(32)
                .flat_map(|block| q8_0(block).0)
                .collect(),
        }
    }

    fn round(self, block: &mut [f32]) {
        match self {
            Self::F32 | Self::F16 => {}
            Self::Q4_1 => block.copy_from_slice(&q4_1(block).1),
            Self::Q8_0 => block.copy_from_slice(&q8_0(block).1),
        }
    }
}

/// A tensor as a safetensors file stores it.
pub struct Stored {
    pub dtype: StoredDtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Stored {
    pub fn f32(tensor: &Tensor) -> Self {
        let bytes = tensor
            .values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Self {
            dtype: StoredDtype::F32,
            shape: tensor.shape.clone(),
            bytes,
        }
    }

    fn u32(array: &Array) -> Self {
        let values = array.to_vec_exact::<u32>().unwrap();
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Self {
            dtype: StoredDtype::U32,
            shape: shape_of(array),
            bytes,
        }
    }

    fn f16(array: &Array) -> Self {
        let values = array
            .as_dtype(Dtype::Float16)
            .unwrap()
            .to_vec_exact::<f16>()
            .unwrap();
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Self {
            dtype: StoredDtype::F16,
            shape: shape_of(array),
            bytes,
        }
    }
}

fn shape_of(array: &Array) -> Vec<usize> {
    array.shape().iter().map(|&size| size as usize).collect()
}

pub fn write_safetensors(path: &Path, tensors: &BTreeMap<String, Stored>) {
    let views = tensors.iter().map(|(name, tensor)| {
        (
            name,
            TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes).unwrap(),
        )
    });
    std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Loads with float32 activations.
pub fn load(path: &Path) -> mlx_model::Result<Model> {
    Model::load(
        path,
        LoadOptions {
            dtype: Some(Dtype::Float32),
            ..LoadOptions::default()
        },
    )
}

/// Writes a folder and loads it.
pub fn loaded(tiny: &Tiny) -> Model {
    let folder = tempfile::tempdir().unwrap();
    tiny.write_folder(folder.path());
    load(folder.path()).unwrap()
}

/// Loads the bytes of a GGUF file.
pub fn load_gguf(bytes: &[u8]) -> mlx_model::Result<Model> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    load(&path)
}
