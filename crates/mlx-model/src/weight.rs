//! Weight matrices, as they are stored.

mod trellis;

use std::sync::atomic::{AtomicU64, Ordering};

use mlx_rs::{Array, Dtype, ops};

use crate::config::QuantizationScheme;
use crate::error::{ModelError, Result};

pub use trellis::TrellisMatrix;

/// A matrix in MLX's affine format: `weight = scale * q + bias`, with one scale and one bias for
/// each group of consecutive weights in a row.
#[derive(Debug, Clone)]
pub struct QuantizedWeight {
    packed: Array,
    scales: Array,
    biases: Array,
    rows: i32,
    columns: i32,
    scheme: QuantizationScheme,
    id: u64,
}

/// Names weights within the process, so that what is derived from one can be kept and found.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

impl QuantizedWeight {
    /// Puts the three arrays of a `[rows, columns]` matrix together.
    ///
    /// `packed` is uint32 `[rows, columns * bits / 32]`; `scales` and `biases` are floats of one
    /// type, `[rows, columns / group_size]`. Bits and group size follow from the shapes. `name` is
    /// for errors.
    ///
    /// # Errors
    /// A [`ModelError`] that names the array which does not fit and what it should be.
    pub fn new(
        name: &str,
        [rows, columns]: [i32; 2],
        packed: Array,
        scales: Array,
        biases: Array,
    ) -> Result<Self> {
        if packed.dtype() != Dtype::Uint32 {
            return Err(ModelError::TensorDtype {
                name: name.into(),
                found: format!("{:?}", packed.dtype()),
                expected: "uint32",
            });
        }
        if !scales.dtype().is_float() || biases.dtype() != scales.dtype() {
            return Err(ModelError::Quantization {
                name: name.into(),
                what: "dtype of scales and biases",
                found: format!("{:?} and {:?}", scales.dtype(), biases.dtype()),
                expected: "one floating-point type".into(),
            });
        }
        let scheme = scheme_of(name, [rows, columns], &packed, &scales)?;
        if biases.shape() != scales.shape() {
            return Err(ModelError::Quantization {
                name: name.into(),
                what: "shape of biases",
                found: format!("{:?}", biases.shape()),
                expected: format!("the scales' {:?}", scales.shape()),
            });
        }
        let id = next_id();
        Ok(Self {
            packed,
            scales,
            biases,
            rows,
            columns,
            scheme,
            id,
        })
    }

    /// Packed weights, uint32 `[rows, columns * bits / 32]`.
    #[must_use]
    pub fn packed(&self) -> &Array {
        &self.packed
    }

    /// Scales, `[rows, columns / group_size]`.
    #[must_use]
    pub fn scales(&self) -> &Array {
        &self.scales
    }

    /// Biases, `[rows, columns / group_size]`.
    #[must_use]
    pub fn biases(&self) -> &Array {
        &self.biases
    }

    /// Output features.
    #[must_use]
    pub fn rows(&self) -> i32 {
        self.rows
    }

    /// Input features.
    #[must_use]
    pub fn columns(&self) -> i32 {
        self.columns
    }

    /// Bits per weight and weights per scale.
    #[must_use]
    pub fn scheme(&self) -> QuantizationScheme {
        self.scheme
    }

    /// A number that no other weight of this process has; clones share it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The whole matrix, `[rows, columns]`, as `scale * q + bias` computed in float32.
    ///
    /// # Errors
    /// Any error of MLX.
    pub fn dequantize(&self) -> Result<Array> {
        dequantize(&self.packed, &self.scales, &self.biases, self.scheme)
    }

    /// Rows named by `indices`, in float32 with the indices' shape before the columns. Only these
    /// rows are decoded.
    ///
    /// # Errors
    /// Any error of MLX.
    pub fn gather(&self, indices: &Array) -> Result<Array> {
        dequantize(
            &self.packed.take_axis(indices, 0)?,
            &self.scales.take_axis(indices, 0)?,
            &self.biases.take_axis(indices, 0)?,
            self.scheme,
        )
    }
}

/// Scales and biases are widened first: MLX computes in their type.
fn dequantize(
    packed: &Array,
    scales: &Array,
    biases: &Array,
    scheme: QuantizationScheme,
) -> Result<Array> {
    let scales = scales.as_dtype(Dtype::Float32)?;
    let biases = biases.as_dtype(Dtype::Float32)?;
    Ok(ops::dequantize(
        packed,
        &scales,
        &biases,
        scheme.group_size,
        scheme.bits,
    )?)
}

fn scheme_of(
    name: &str,
    [rows, columns]: [i32; 2],
    packed: &Array,
    scales: &Array,
) -> Result<QuantizationScheme> {
    let shape_error = |tensor: String, found: &Array, last: &str| ModelError::Quantization {
        name: tensor,
        what: "shape",
        found: format!("{:?}", found.shape()),
        expected: format!("[{rows}, {last}] for a matrix of {rows} x {columns}"),
    };
    let (&[packed_rows, words], &[scale_rows, groups]) = (packed.shape(), scales.shape()) else {
        return Err(shape_error(
            name.into(),
            packed,
            "n, with scales of two dimensions too",
        ));
    };
    let scales_name = || format!("{name} (scales)");
    if packed_rows != rows {
        return Err(shape_error(name.into(), packed, "n"));
    }
    if scale_rows != rows || groups <= 0 || columns % groups != 0 {
        return Err(shape_error(
            scales_name(),
            scales,
            "a divisor of the columns",
        ));
    }
    let group_size = columns / groups;
    if !QuantizationScheme::GROUP_SIZES.contains(&group_size) {
        return Err(ModelError::Quantization {
            name: name.into(),
            what: "group size by the scales' shape",
            found: group_size.to_string(),
            expected: "32, 64 or 128".into(),
        });
    }
    // Every group of 32 weights fills `bits` words of 32 bits, so this division is exact or the
    // shape is wrong.
    let (bit_columns, columns) = (i64::from(words) * 32, i64::from(columns));
    let bits = (bit_columns / columns) as i32;
    if bit_columns % columns != 0 || !QuantizationScheme::BITS.contains(&bits) {
        return Err(ModelError::Quantization {
            name: name.into(),
            what: "bits per weight by the packed shape",
            found: format!("{:.3}", bit_columns as f64 / columns as f64),
            expected: format!("2, 3, 4, 5, 6 or 8 for {columns} columns"),
        });
    }
    QuantizationScheme::new(bits, group_size)
}

/// A weight matrix, quantized or not.
#[derive(Debug, Clone)]
pub enum Weight {
    /// Floats, `[rows, columns]`.
    Dense(Array),
    /// MLX's affine format.
    Quantized(QuantizedWeight),
    /// Trellis codes.
    Trellis(TrellisMatrix),
}

impl Weight {
    /// The format in words, such as `4-bit g32` or `float16`.
    #[must_use]
    pub fn format(&self) -> String {
        match self {
            Self::Dense(weight) => format!("{:?}", weight.dtype()).to_lowercase(),
            Self::Quantized(weight) => weight.scheme().to_string(),
            Self::Trellis(weight) => weight.format(),
        }
    }

    /// The arrays that it consists of.
    pub(crate) fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::Dense(weight) => vec![weight],
            Self::Quantized(weight) => vec![weight.packed(), weight.scales(), weight.biases()],
            Self::Trellis(matrix) => vec![matrix.weight().codes(), matrix.weight().scales()],
        }
    }

    /// The whole matrix in float32.
    ///
    /// # Errors
    /// Any error of MLX.
    pub fn to_float32(&self) -> Result<Array> {
        match self {
            Self::Dense(weight) => Ok(weight.as_dtype(Dtype::Float32)?),
            Self::Quantized(weight) => weight.dequantize(),
            Self::Trellis(weight) => weight.decode(),
        }
    }

    /// The matrix quantized anew from its float32 values, with scales of type `dtype`.
    ///
    /// # Errors
    /// [`ModelError::Quantization`] if the columns are not whole groups; any error of MLX.
    pub fn requantize(&self, name: &str, scheme: QuantizationScheme, dtype: Dtype) -> Result<Self> {
        let dense = self.to_float32()?;
        let shape = [dense.dim(0), dense.dim(1)];
        if shape[1] % scheme.group_size != 0 {
            return Err(ModelError::Quantization {
                name: name.into(),
                what: "number of columns",
                found: shape[1].to_string(),
                expected: format!("a multiple of the group size {}", scheme.group_size),
            });
        }
        let (packed, scales, biases) = ops::quantize(&dense, scheme.group_size, scheme.bits)?;
        let (scales, biases) = (scales.as_dtype(dtype)?, biases.as_dtype(dtype)?);
        QuantizedWeight::new(name, shape, packed, scales, biases).map(Self::Quantized)
    }
}
