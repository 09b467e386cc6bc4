//! A coded module as two safetensors tensors, `P.weight` (uint32 codes) and `P.scales` (f16).

use std::borrow::Cow;

use half::f16;
use safetensors::{Dtype, SafeTensors, View};

use crate::error::expect_length;
use crate::{Contract, Error, Geometry, ModuleEntry, Result, decode};

/// The codes and scales of one module with their geometry.
#[derive(Clone, Debug, PartialEq)]
pub struct TrellisModule {
    geometry: Geometry,
    codes: Vec<u32>,
    scales: Vec<f16>,
}

/// One tensor of a module, ready for [`safetensors::serialize`] and [`safetensors::serialize_to_file`].
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleTensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for ModuleTensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

impl TrellisModule {
    /// Puts a module together.
    ///
    /// # Errors
    /// [`Error::Length`] when the codes or scales do not fit the geometry.
    pub fn new(geometry: Geometry, codes: Vec<u32>, scales: Vec<f16>) -> Result<Self> {
        expect_length("the array of code words", codes.len(), geometry.words())?;
        expect_length("the array of scales", scales.len(), geometry.rows())?;
        Ok(Self {
            geometry,
            codes,
            scales,
        })
    }

    /// Reads `module.weight` and `module.scales`, as the configuration entry describes them.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::ScalesDtype`], or what [`Geometry::derive`] refuses.
    pub fn read(file: &SafeTensors<'_>, module: &str, entry: &ModuleEntry) -> Result<Self> {
        let tensor = |name: &'static str| {
            file.tensor(&format!("{module}.{name}"))
                .map_err(|_| Error::MissingTensor {
                    module: module.to_owned(),
                    tensor: name,
                })
        };
        let codes = tensor("weight")?;
        let scales = tensor("scales")?;
        let geometry = Geometry::derive(entry, codes.dtype(), codes.shape(), scales.shape())?;
        if scales.dtype() != Dtype::F16 {
            return Err(Error::ScalesDtype {
                found: scales.dtype(),
            });
        }
        let codes = elements(
            &format!("{module}.weight"),
            codes.shape(),
            codes.data(),
            u32::from_le_bytes,
        )?;
        let scales = elements(
            &format!("{module}.scales"),
            scales.shape(),
            scales.data(),
            f16::from_le_bytes,
        )?;
        Self::new(geometry, codes, scales)
    }

    /// The two tensors under their names in a file.
    #[must_use]
    pub fn tensors(&self, module: &str) -> [(String, ModuleTensor); 2] {
        let codes = ModuleTensor {
            dtype: Dtype::U32,
            shape: self.geometry.codes_shape(),
            bytes: self
                .codes
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect(),
        };
        let scales = ModuleTensor {
            dtype: Dtype::F16,
            shape: vec![self.scales.len()],
            bytes: self
                .scales
                .iter()
                .flat_map(|scale| scale.to_le_bytes())
                .collect(),
        };
        [
            (format!("{module}.weight"), codes),
            (format!("{module}.scales"), scales),
        ]
    }

    /// The module's geometry.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The code words, in the geometry's layout.
    #[must_use]
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// The scales, one per stored row.
    #[must_use]
    pub fn scales(&self) -> &[f16] {
        &self.scales
    }

    /// The scales as f32.
    #[must_use]
    pub fn scales_f32(&self) -> Vec<f32> {
        self.scales.iter().map(|scale| scale.to_f32()).collect()
    }

    /// Decodes the stored matrix; see [`decode`](crate::decode()).
    ///
    /// # Errors
    /// None in practice: a module is consistent.
    pub fn decode(&self, contract: Contract) -> Result<Vec<f32>> {
        decode(&self.geometry, &self.codes, &self.scales_f32(), contract)
    }
}

/// Reads little-endian elements after checking that the bytes are as many as the shape says.
fn elements<T, const N: usize>(
    tensor: &str,
    shape: &[usize],
    bytes: &[u8],
    read: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>> {
    let expected = shape.iter().try_fold(N, |size, &dim| size.checked_mul(dim));
    let expected = expected.ok_or_else(|| Error::TooLarge {
        shape: shape.to_vec(),
    })?;
    if bytes.len() != expected {
        return Err(Error::TensorBytes {
            tensor: tensor.to_owned(),
            shape: shape.to_vec(),
            found: bytes.len(),
            expected,
        });
    }
    Ok(bytes
        .as_chunks::<N>()
        .0
        .iter()
        .map(|&chunk| read(chunk))
        .collect())
}
