//! The `quantization` block of an MLX folder's `config.json`.

use std::collections::BTreeMap;

use serde_json::Value;
use trellis_codec::{MODE, ModuleEntry};

use crate::error::{ModelError, Result};

/// Bits per weight and weights per scale of MLX's affine mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuantizationScheme {
    /// Bits per weight: 2, 3, 4, 5, 6 or 8.
    pub bits: i32,
    /// Consecutive weights of a row that share a scale and a bias: 32, 64 or 128.
    pub group_size: i32,
}

impl QuantizationScheme {
    /// Bit widths of MLX's affine mode.
    pub const BITS: [i32; 6] = [2, 3, 4, 5, 6, 8];
    /// Group sizes of MLX's affine mode.
    pub const GROUP_SIZES: [i32; 3] = [32, 64, 128];

    /// Makes a scheme of values that MLX knows.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for a bit width or group size that MLX's affine mode lacks.
    pub fn new(bits: i32, group_size: i32) -> Result<Self> {
        if !Self::BITS.contains(&bits) {
            return Err(ModelError::invalid(
                "bits per weight",
                bits,
                "2, 3, 4, 5, 6 or 8",
            ));
        }
        if !Self::GROUP_SIZES.contains(&group_size) {
            return Err(ModelError::invalid(
                "group size",
                group_size,
                "32, 64 or 128",
            ));
        }
        Ok(Self { bits, group_size })
    }
}

impl std::fmt::Display for QuantizationScheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-bit g{}", self.bits, self.group_size)
    }
}

/// What the configuration says of each layer's quantization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuantizationConfig {
    default: Option<QuantizationScheme>,
    overrides: BTreeMap<String, Override>,
}

/// The entry of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Override {
    /// `false`: left unquantized.
    Unquantized,
    Affine(QuantizationScheme),
    Trellis(ModuleEntry),
}

/// What the configuration says of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declared {
    /// Quantized so, if its tensors are quantized at all.
    Default(QuantizationScheme),
    /// Quantized so.
    Exactly(QuantizationScheme),
    /// In trellis codes.
    Trellis(ModuleEntry),
    /// Not quantized.
    Unquantized,
}

impl QuantizationConfig {
    /// Reads the block: a default, and entries keyed by layer path that replace it.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for an entry of another kind, for a default mode other than affine,
    /// or for a layer's mode other than affine and trellis.
    pub fn from_json(block: &Value) -> Result<Self> {
        let entries = block.as_object().ok_or_else(|| {
            ModelError::invalid("`quantization` in config.json", block, "an object")
        })?;
        let default = Some(scheme("quantization", block)?);
        let mut overrides = BTreeMap::new();
        for (key, entry) in entries {
            match entry {
                Value::Bool(false) => {
                    overrides.insert(key.clone(), Override::Unquantized);
                }
                Value::Object(_) => {
                    overrides.insert(key.clone(), layer_entry(key, entry)?);
                }
                // bits, group_size, mode, quant_method and whatever else describes the default.
                _ => {}
            }
        }
        Ok(Self { default, overrides })
    }

    /// What is said of the layer at `path`, such as `model.layers.0.mlp.up_proj`.
    #[must_use]
    pub fn declared(&self, path: &str) -> Declared {
        match (self.overrides.get(path), self.default) {
            (Some(Override::Affine(scheme)), _) => Declared::Exactly(*scheme),
            (Some(Override::Trellis(entry)), _) => Declared::Trellis(entry.clone()),
            (None, Some(scheme)) => Declared::Default(scheme),
            (Some(Override::Unquantized), _) | (None, None) => Declared::Unquantized,
        }
    }

    /// Says of the layer at `path` that it is not quantized.
    pub(crate) fn leave_out(&mut self, path: &str) {
        self.overrides
            .insert(path.to_owned(), Override::Unquantized);
    }
}

fn layer_entry(key: &str, entry: &Value) -> Result<Override> {
    if entry.get("mode").and_then(Value::as_str) != Some(MODE) {
        return scheme(key, entry).map(Override::Affine);
    }
    ModuleEntry::from_json(entry)
        .map(Override::Trellis)
        .map_err(|error| {
            ModelError::invalid(format!("quantization of `{key}`"), entry, error.to_string())
        })
}

fn scheme(key: &str, entry: &Value) -> Result<QuantizationScheme> {
    if let Some(mode) = entry
        .get("mode")
        .filter(|mode| mode.as_str() != Some("affine"))
    {
        return Err(ModelError::invalid(
            format!("quantization mode of `{key}`"),
            mode,
            "affine",
        ));
    }
    let field = |name: &str, default: i64| match entry.get(name) {
        None => Ok(default),
        Some(value) => value.as_i64().ok_or_else(|| {
            ModelError::invalid(format!("`{name}` of `{key}`"), value, "a whole number")
        }),
    };
    let clamp = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
    // MLX's own defaults.
    QuantizationScheme::new(clamp(field("bits", 4)?), clamp(field("group_size", 64)?))
}
