//! Matrices in trellis codes.

use mlx_kernels::trellis::TrellisWeight;
use mlx_rs::{Array, Dtype};
use trellis_codec::ModuleEntry;

use super::next_id;
use crate::error::{ModelError, Result};

/// A matrix in trellis codes, with one scale for each row of the coded matrix.
#[derive(Debug, Clone)]
pub struct TrellisMatrix {
    weight: TrellisWeight,
    id: u64,
}

impl TrellisMatrix {
    /// Puts the two arrays of a `[rows, columns]` matrix together, as its configuration entry
    /// describes them. `name` is for errors.
    ///
    /// # Errors
    /// A [`ModelError`] that names the array or field which does not fit and what it should be.
    pub fn new(
        name: &str,
        [rows, columns]: [i32; 2],
        codes: Array,
        scales: Array,
        entry: &ModuleEntry,
    ) -> Result<Self> {
        let weight =
            TrellisWeight::new(codes, scales, entry).map_err(|source| ModelError::Trellis {
                name: name.into(),
                source,
            })?;
        if [weight.outputs(), weight.inputs()] != [rows, columns] {
            return Err(ModelError::Quantization {
                name: name.into(),
                what: "matrix by its trellis codes",
                found: format!("{} x {}", weight.outputs(), weight.inputs()),
                expected: format!("{rows} x {columns}"),
            });
        }
        Ok(Self {
            weight,
            id: next_id(),
        })
    }

    /// The codes, the scales and their geometry.
    #[must_use]
    pub fn weight(&self) -> &TrellisWeight {
        &self.weight
    }

    /// A number that no other weight of this process has; clones share it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The format in words, such as `3-bit trellis T192 axis 1`.
    #[must_use]
    pub fn format(&self) -> String {
        let geometry = self.weight.geometry();
        format!(
            "{}-bit trellis T{} axis {}",
            geometry.format().bits(),
            geometry.format().block(),
            geometry.axis().index()
        )
    }

    /// The whole matrix, `[rows, columns]`, in float32.
    ///
    /// # Errors
    /// Any error of MLX.
    pub fn decode(&self) -> Result<Array> {
        Ok(self.weight.expand(Dtype::Float32)?)
    }
}
