//! The model that is quantized, tensor by tensor.

use std::path::{Path, PathBuf};

use mlx_rs::{Array, Dtype};
use safetensors::Dtype as StoredDtype;
use serde_json::Value;

use super::affine;
use super::parts::{Distortion, Part, StoredTensor};
use super::recipe::Task;
use crate::checkpoint::Checkpoint;
use crate::config::{ModelConfig, QuantizationScheme};
use crate::error::{ModelError, Result};
use crate::hf::read_json;
use crate::rotation::{self, rotate};

/// Name of the part that holds what is not a matrix.
pub(super) const REST: &str = "rest";

pub(super) struct Source {
    path: PathBuf,
    checkpoint: Checkpoint,
}

impl Source {
    /// Opens a GGUF file or a folder. The tensors of a folder are read one by one; those of a GGUF
    /// file come into memory, as they are stored, at once.
    ///
    /// With a seed, the blocks come in the basis of that rotation of the residual stream.
    pub(super) fn open(path: &Path, rotation: Option<u64>) -> Result<Self> {
        let mut checkpoint = Checkpoint::open(path, Some(Dtype::Float32))?;
        let has_head = checkpoint.contains("lm_head.weight");
        checkpoint.config.tied_head.get_or_insert(!has_head);
        if let Some(seed) = rotation {
            rotate(&mut checkpoint, seed)?;
        }
        Ok(Self {
            path: path.into(),
            checkpoint,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn config(&self) -> &ModelConfig {
        &self.checkpoint.config
    }

    /// The source's `config.json`, or what one says of a GGUF file.
    pub(super) fn config_json(&self) -> Result<Value> {
        if self.path.is_dir() {
            read_json(&self.path.join("config.json"), "model configuration")
        } else {
            self.config().to_hf_json()
        }
    }

    /// Takes a matrix out, in float32 `[outputs, inputs]`.
    pub(super) fn matrix(&mut self, task: &Task) -> Result<Vec<f32>> {
        let [outputs, inputs] = task.shape;
        let weight = self.checkpoint.weight(&task.path, outputs, inputs)?;
        let values = weight.to_float32()?.to_vec_cast::<f32>();
        values.map_err(|error| ModelError::invalid(&task.path, error, "float32 values"))
    }

    /// Takes a matrix out as it is stored if it is quantized, else as 8-bit affine in groups of 64
    /// or 32, else as it is.
    pub(super) fn kept(&mut self, task: &Task) -> Result<Part> {
        let name = |part: &str| format!("{}.{part}", task.path);
        if self.checkpoint.contains(&name("scales")) {
            let names = ["weight", "scales", "biases"].map(name);
            return Ok(Part {
                tensors: names
                    .into_iter()
                    .map(|name| {
                        let tensor = self.checkpoint.take(&name)?;
                        stored(name, &tensor)
                    })
                    .collect::<Result<_>>()?,
                distortion: Distortion::default(),
                tripped: false,
            });
        }
        let groups = [64, 32].into_iter();
        let mut fitting = groups.filter(|group| task.shape[1] % group == 0);
        if let Some(group_size) = fitting.next() {
            let scheme = QuantizationScheme {
                bits: 8,
                group_size,
            };
            return affine::encode(task, &self.matrix(task)?, scheme);
        }
        let tensor = self.checkpoint.take(&name("weight"))?;
        Ok(Part {
            tensors: vec![stored(name("weight"), &tensor)?],
            distortion: Distortion::default(),
            tripped: false,
        })
    }

    /// Takes out norms, biases and the rotation, as they are stored.
    pub(super) fn rest(&mut self) -> Result<Part> {
        let config = self.config().clone();
        let mut names = vec!["model.norm.weight".to_owned()];
        if config.residual_rotation {
            names.extend(rotation::TENSORS.map(str::to_owned));
        }
        let mut optional = Vec::new();
        for layer in 0..config.layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            names.push(name("input_layernorm.weight"));
            names.push(name("post_attention_layernorm.weight"));
            if config.qk_norm() {
                names.push(name("self_attn.q_norm.weight"));
                names.push(name("self_attn.k_norm.weight"));
            }
            let attention = ["q_proj", "k_proj", "v_proj", "o_proj"];
            let mlp = ["gate_proj", "up_proj", "down_proj"];
            optional.extend(attention.map(|kind| name(&format!("self_attn.{kind}.bias"))));
            optional.extend(mlp.map(|kind| name(&format!("mlp.{kind}.bias"))));
        }
        optional.retain(|name| self.checkpoint.contains(name));
        let tensors = names
            .into_iter()
            .chain(optional)
            .map(|name| {
                let tensor = self.checkpoint.take(&name)?;
                stored(name, &tensor)
            })
            .collect::<Result<_>>()?;
        Ok(Part {
            tensors,
            distortion: Distortion::default(),
            tripped: false,
        })
    }
}

/// An array as a file stores it.
pub(super) fn stored(name: String, array: &Array) -> Result<StoredTensor> {
    macro_rules! little_endian {
        ($element:ty, $dtype:ident) => {
            array.to_vec_exact::<$element>().map(|values| {
                let bytes = values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect();
                (StoredDtype::$dtype, bytes)
            })
        };
    }
    let exact = match array.dtype() {
        Dtype::Uint32 => little_endian!(u32, U32),
        Dtype::Float32 => little_endian!(f32, F32),
        Dtype::Float16 => little_endian!(half::f16, F16),
        Dtype::Bfloat16 => little_endian!(half::bf16, BF16),
        found => {
            return Err(ModelError::TensorDtype {
                name,
                found: format!("{found:?}"),
                expected: "uint32, float32, float16 or bfloat16",
            });
        }
    };
    let (dtype, bytes) =
        exact.map_err(|error| ModelError::invalid(&name, error, "an array in memory"))?;
    Ok(StoredTensor {
        name,
        dtype,
        shape: array.shape().iter().map(|&size| size as usize).collect(),
        bytes,
    })
}
