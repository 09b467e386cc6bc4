//! The golden cases under `tests/golden/`: small inputs with answers that an independent
//! implementation gave.
//!
//! A file `NAME.safetensors` holds many cases. Tensor `CASE.TENSOR` belongs to case `CASE`; the
//! metadata key `cases` maps each case to its parameters as JSON.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// One tensor of a case: row-major and little-endian, as stored.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Element type, as the file names it.
    pub dtype: Dtype,
    /// The elements' bytes.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// Every element widened to `f32`; exact for `F32`, `F16` and `BF16`.
    ///
    /// # Panics
    ///
    /// If the tensor is not of a float type.
    #[must_use]
    pub fn to_f32(&self) -> Vec<f32> {
        match self.dtype {
            Dtype::F32 => self.f32(),
            Dtype::F16 => self.f16().into_iter().map(f16::to_f32).collect(),
            Dtype::BF16 => self.bf16().into_iter().map(bf16::to_f32).collect(),
            other => panic!("{other:?} is not a float type"),
        }
    }

    /// The elements of a `U32` tensor.
    ///
    /// # Panics
    ///
    /// If the tensor is of another type.
    #[must_use]
    pub fn u32(&self) -> Vec<u32> {
        self.elements(Dtype::U32, u32::from_le_bytes)
    }

    /// The elements of an `F32` tensor.
    ///
    /// # Panics
    ///
    /// If the tensor is of another type.
    #[must_use]
    pub fn f32(&self) -> Vec<f32> {
        self.elements(Dtype::F32, f32::from_le_bytes)
    }

    /// The elements of an `F16` tensor.
    ///
    /// # Panics
    ///
    /// If the tensor is of another type.
    #[must_use]
    pub fn f16(&self) -> Vec<f16> {
        self.elements(Dtype::F16, f16::from_le_bytes)
    }

    /// The elements of a `BF16` tensor.
    ///
    /// # Panics
    ///
    /// If the tensor is of another type.
    #[must_use]
    pub fn bf16(&self) -> Vec<bf16> {
        self.elements(Dtype::BF16, bf16::from_le_bytes)
    }

    fn elements<T, const SIZE: usize>(&self, dtype: Dtype, decode: fn([u8; SIZE]) -> T) -> Vec<T> {
        assert_eq!(self.dtype, dtype, "the tensor's element type");
        self.bytes
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| decode(bytes))
            .collect()
    }
}

/// One golden case.
#[derive(Debug, Clone)]
pub struct Case {
    /// Name, unique in its file.
    pub name: String,
    /// The case's parameters: `kind`, `inputs`, `outputs` and those of the kind.
    pub params: Value,
    /// Tensors by name, without the case's prefix.
    pub tensors: HashMap<String, Tensor>,
}

impl Case {
    /// The tensor called `name`.
    ///
    /// # Panics
    ///
    /// If the case has none of that name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> &Tensor {
        self.tensors
            .get(name)
            .unwrap_or_else(|| panic!("{}: no tensor `{name}`", self.name))
    }

    /// The integer parameter called `name`.
    ///
    /// # Panics
    ///
    /// If it is missing or not a whole number that fits.
    #[must_use]
    pub fn int(&self, name: &str) -> usize {
        let value = self.params[name]
            .as_u64()
            .and_then(|value| value.try_into().ok());
        value.unwrap_or_else(|| panic!("{}: no integer `{name}`", self.name))
    }

    /// The number called `name`.
    ///
    /// # Panics
    ///
    /// If it is missing or not a number.
    #[must_use]
    pub fn float(&self, name: &str) -> f64 {
        self.params[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{}: no number `{name}`", self.name))
    }

    /// The text parameter called `name`.
    ///
    /// # Panics
    ///
    /// If it is missing or not text.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.params[name]
            .as_str()
            .unwrap_or_else(|| panic!("{}: no text `{name}`", self.name))
    }
}

/// The path of golden file `name`, given without its extension.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(format!("{name}.safetensors"))
}

/// Every case of golden file `name` (without its extension), ordered by name.
///
/// # Panics
///
/// If the file is missing or not laid out as the module describes: the files are part of the
/// repository, so a test can do nothing better.
#[must_use]
pub fn load(name: &str) -> Vec<Case> {
    let path = path(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (_, metadata) = SafeTensors::read_metadata(&bytes).expect("a safetensors header");
    let texts = metadata.metadata().as_ref().expect("a metadata table");
    let cases: serde_json::Map<String, Value> =
        serde_json::from_str(&texts["cases"]).expect("`cases` is a JSON object");
    let file = SafeTensors::deserialize(&bytes).expect("a whole safetensors file");

    let mut tensors: HashMap<&str, HashMap<String, Tensor>> = HashMap::new();
    for (full_name, view) in file.iter() {
        let (case, tensor) = full_name
            .rsplit_once('.')
            .expect("a name of the form CASE.TENSOR");
        let stored = Tensor {
            shape: view.shape().to_vec(),
            dtype: view.dtype(),
            bytes: view.data().to_vec(),
        };
        tensors
            .entry(case)
            .or_default()
            .insert(tensor.to_owned(), stored);
    }
    let mut cases: Vec<Case> = cases
        .into_iter()
        .map(|(name, params)| {
            let tensors = tensors.remove(name.as_str()).unwrap_or_default();
            Case {
                name,
                params,
                tensors,
            }
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}
