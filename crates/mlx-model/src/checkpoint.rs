//! A model's configuration and named tensors, from either file format.

use std::collections::HashMap;
use std::path::Path;

use mlx_rs::transforms::eval;
use mlx_rs::{Array, Dtype};
use trellis_codec::ModuleEntry;

use crate::config::Declared;
use crate::config::{ModelConfig, QuantizationScheme, RopeScaling};
use crate::error::{ModelError, Result};
use crate::gguf;
use crate::hf::{Folder, read_json, read_json_if_present};
use crate::weight::{QuantizedWeight, TrellisMatrix, Weight};

/// What weights in trellis codes are expanded to on request.
const EXPANDED: QuantizationScheme = QuantizationScheme {
    bits: 8,
    group_size: 64,
};

/// Tensors by Hugging Face name, taken out one by one as layers are built.
pub(crate) struct Checkpoint {
    pub(crate) config: ModelConfig,
    tensors: HashMap<String, Array>,
    /// Element type that floating-point tensors are converted to.
    pub(crate) dtype: Dtype,
    expand_trellis: bool,
}

impl Checkpoint {
    /// Opens a GGUF file or a model folder.
    pub(crate) fn open(path: &Path, dtype: Option<Dtype>) -> Result<Self> {
        if path.is_dir() {
            Self::open_folder(path, dtype)
        } else if path.is_file() {
            Self::open_gguf(path, dtype)
        } else {
            Err(ModelError::Missing {
                path: path.into(),
                expected: "GGUF file or model folder",
            })
        }
    }

    /// The same with weights in trellis codes made affine as they are taken out, or not.
    pub(crate) fn expanding_trellis(self, expand_trellis: bool) -> Self {
        Self {
            expand_trellis,
            ..self
        }
    }

    fn open_folder(path: &Path, dtype: Option<Dtype>) -> Result<Self> {
        let config_path = path.join("config.json");
        let json = read_json(&config_path, "model configuration")?;
        let mut config = ModelConfig::from_hf_json(&config_path, &json)?;
        let generation = read_json_if_present(&path.join("generation_config.json"))?;
        config
            .eos_tokens
            .extend(crate::config::eos_tokens(&generation));
        let tensors = Folder::open(path)?.load_tensors()?;
        // Norms and scales may be held wider: what most numbers are in is the file's dtype.
        let stored = ["model.embed_tokens.scales", "model.embed_tokens.weight"]
            .iter()
            .find_map(|name| tensors.get(*name))
            .map(Array::dtype)
            .filter(|dtype| is_supported(*dtype));
        let dtype = dtype.or(stored).unwrap_or(Dtype::Float32);
        Ok(Self {
            config,
            tensors,
            dtype,
            expand_trellis: false,
        })
    }

    fn open_gguf(path: &Path, dtype: Option<Dtype>) -> Result<Self> {
        let header = gguf::Header::read(path)?;
        let mut config = ModelConfig::from_gguf(&header)?;
        let mut tensors = gguf::load_tensors(&header)?;
        if let Some(factors) = tensors.remove("rope_freqs.weight") {
            let factors = factors.to_vec_cast::<f32>().map_err(|error| {
                ModelError::invalid("rope_freqs.weight", error, "a tensor of factors")
            })?;
            config = config.with_rope_scaling(RopeScaling::Factors(factors))?;
        }
        // GGUF keeps norms in float32 whatever the rest is in: its scales' float16 decides.
        let dtype = dtype.unwrap_or(Dtype::Float16);
        Ok(Self {
            config,
            tensors,
            dtype,
            expand_trellis: false,
        })
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Takes out a floating-point tensor of a given shape.
    pub(crate) fn float(&mut self, name: &str, shape: &[i32]) -> Result<Array> {
        let tensor = self.take(name)?;
        if tensor.shape() != shape {
            return Err(ModelError::TensorShape {
                name: name.into(),
                found: tensor.shape().to_vec(),
                expected: shape.to_vec(),
            });
        }
        self.convert(name, tensor)
    }

    /// Takes out the matrix of the layer at `path`, `rows` x `columns`, quantized or not.
    pub(crate) fn weight(&mut self, path: &str, rows: i32, columns: i32) -> Result<Weight> {
        let name = format!("{path}.weight");
        let scales_name = format!("{path}.scales");
        let declared = self
            .config
            .quantization
            .as_ref()
            .map(|config| config.declared(path));
        if let Some(Declared::Trellis(entry)) = &declared {
            return self.trellis(path, entry, [rows, columns]);
        }
        if !self.contains(&scales_name) {
            if let Some(Declared::Exactly(scheme)) = declared {
                return Err(ModelError::Quantization {
                    name,
                    what: "scheme",
                    found: "unquantized".into(),
                    expected: format!("{scheme} by config.json"),
                });
            }
            return Ok(Weight::Dense(self.float(&name, &[rows, columns])?));
        }
        let packed = self.take(&name)?;
        let scales = self.take(&scales_name)?;
        let scales = self.convert(&scales_name, scales)?;
        let biases_name = format!("{path}.biases");
        let biases = self.take(&biases_name)?;
        let biases = self.convert(&biases_name, biases)?;
        let weight = QuantizedWeight::new(&name, [rows, columns], packed, scales, biases)?;
        check_declared(&name, weight.scheme(), declared)?;
        Ok(Weight::Quantized(weight))
    }

    fn trellis(&mut self, path: &str, entry: &ModuleEntry, shape: [i32; 2]) -> Result<Weight> {
        let name = format!("{path}.weight");
        let codes = self.take(&name)?;
        // The scales stay as they are: they are few, and another type would change every weight.
        let scales = self.take(&format!("{path}.scales"))?;
        let weight = TrellisMatrix::new(&name, shape, codes, scales, entry).map(Weight::Trellis)?;
        if !self.expand_trellis {
            return Ok(weight);
        }
        let affine = weight.requantize(&name, EXPANDED, self.dtype)?;
        // Now, so that no more than one decoded matrix is in memory.
        eval(affine.arrays())?;
        Ok(affine)
    }

    /// Puts `change` of a layer's matrix, dequantized to float32, in its place.
    pub(crate) fn rewrite(
        &mut self,
        path: &str,
        [rows, columns]: [i32; 2],
        change: impl FnOnce(&Array) -> Result<Array>,
    ) -> Result<()> {
        let weight = self.weight(path, rows, columns)?.to_float32()?;
        let changed = change(&weight)?;
        if let Some(quantization) = &mut self.config.quantization {
            quantization.leave_out(path);
        }
        // As a row-major array, which a transpose is not.
        self.insert(format!("{path}.weight"), changed.contiguous()?);
        Ok(())
    }

    /// Adds or replaces a tensor.
    pub(crate) fn insert(&mut self, name: String, tensor: Array) {
        self.tensors.insert(name, tensor);
    }

    /// Takes out a tensor as it is stored.
    pub(crate) fn take(&mut self, name: &str) -> Result<Array> {
        self.tensors
            .remove(name)
            .ok_or_else(|| ModelError::MissingTensor { name: name.into() })
    }

    fn convert(&self, name: &str, tensor: Array) -> Result<Array> {
        let found = tensor.dtype();
        if !is_supported(found) {
            return Err(ModelError::TensorDtype {
                name: name.into(),
                found: format!("{found:?}"),
                expected: "float32, float16 or bfloat16",
            });
        }
        if found == self.dtype {
            Ok(tensor)
        } else {
            Ok(tensor.as_dtype(self.dtype)?)
        }
    }
}

/// Whether activations may be of this dtype.
pub(crate) fn is_supported(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16)
}

fn check_declared(
    name: &str,
    scheme: QuantizationScheme,
    declared: Option<Declared>,
) -> Result<()> {
    let expected = match declared {
        None => return Ok(()),
        Some(Declared::Unquantized) => "unquantized by config.json".to_owned(),
        Some(Declared::Trellis(entry)) => format!("{}-bit trellis codes", entry.bits),
        Some(Declared::Default(said) | Declared::Exactly(said)) if said == scheme => return Ok(()),
        Some(Declared::Default(said) | Declared::Exactly(said)) => {
            format!("{said} by config.json")
        }
    };
    Err(ModelError::Quantization {
        name: name.into(),
        what: "scheme by the tensors' shapes",
        found: scheme.to_string(),
        expected,
    })
}
