//! A trellis-coded weight as MLX arrays.

use mlx_rs::{Array, Dtype};
use safetensors::Dtype as StoredDtype;
use trellis_codec::{Axis, Geometry, ModuleEntry};

use super::{OP, expand};
use crate::Error;
use crate::host::is_supported;

/// The codes and scales of one layer's weight, checked against their configuration entry.
#[derive(Debug, Clone)]
pub struct TrellisWeight {
    codes: Array,
    scales: Array,
    geometry: Geometry,
}

impl TrellisWeight {
    /// Checks the two arrays of a coded module against its entry of the quantization table.
    ///
    /// * `codes`: uint32, `[R, C * k / 32]`, or `[C / (2 T), R, 2 T * k / 32]` for interleaved block
    ///   pairs.
    /// * `scales`: float16, bfloat16 or float32, `[R]`.
    ///
    /// # Errors
    ///
    /// Names the array or the field of the entry that does not fit, what it is and what it must be.
    pub fn new(codes: Array, scales: Array, entry: &ModuleEntry) -> Result<Self, Error> {
        if codes.dtype() != Dtype::Uint32 {
            return Err(Error::Dtype {
                op: OP,
                argument: "codes",
                found: codes.dtype(),
                expected: "uint32 words of packed codes".into(),
            });
        }
        if !is_supported(scales.dtype()) {
            return Err(Error::Dtype {
                op: OP,
                argument: "scales",
                found: scales.dtype(),
                expected: "float32, float16 or bfloat16".into(),
            });
        }
        let (code_shape, scale_shape) = (extents(&codes), extents(&scales));
        let geometry = Geometry::derive(entry, StoredDtype::U32, &code_shape, &scale_shape)?;
        for (argument, features) in [
            ("output features", geometry.output_features()),
            ("input features", geometry.input_features()),
        ] {
            if i32::try_from(features).is_err() {
                return Err(Error::Value {
                    op: OP,
                    argument,
                    found: features.to_string(),
                    expected: "below 2^31".into(),
                });
            }
        }
        Ok(Self {
            codes,
            scales,
            geometry,
        })
    }

    /// The words, in the geometry's layout.
    pub fn codes(&self) -> &Array {
        &self.codes
    }

    /// One scale for each stored row.
    pub fn scales(&self) -> &Array {
        &self.scales
    }

    /// The code, the coded axis, the layout and the extents.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Output features.
    pub fn outputs(&self) -> i32 {
        self.geometry.output_features() as i32
    }

    /// Input features.
    pub fn inputs(&self) -> i32 {
        self.geometry.input_features() as i32
    }

    /// The whole weight, `[outputs, inputs]`, lazily, as plain MLX operations of the current device:
    /// the exact value of each state times its row's scale in float32, then rounded to `dtype`.
    ///
    /// # Errors
    ///
    /// Those of MLX.
    pub fn expand(&self, dtype: Dtype) -> Result<Array, Error> {
        let stored = expand::stored(self)?.as_dtype(dtype)?;
        Ok(match self.geometry.axis() {
            Axis::Input => stored,
            Axis::Output => stored.t(),
        })
    }
}

fn extents(array: &Array) -> Vec<usize> {
    array.shape().iter().map(|&size| size as usize).collect()
}
