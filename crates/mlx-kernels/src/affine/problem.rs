//! What a product is: extents, format and element types, read off the arguments and checked once.

use mlx_rs::{Array, Dtype};

use crate::Error;
use crate::host::is_supported;

pub(crate) const OP: &str = "quantized_matmul";

/// Bit widths of MLX's affine mode.
pub const BITS: [i32; 6] = [2, 3, 4, 5, 6, 8];
/// Group sizes of MLX's affine mode.
pub const GROUP_SIZES: [i32; 3] = [32, 64, 128];

/// One product `y[rows, n] = x[rows, k] * W[n, k]^T` with affine-quantized `W`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Product of x's leading dimensions.
    pub rows: i32,
    /// Outputs a row: the weight's rows.
    pub n: i32,
    /// Inner width.
    pub k: i32,
    /// Bits a weight: 2, 3, 4, 5, 6 or 8.
    pub bits: i32,
    /// Consecutive weights that share scale and bias: 32, 64 or 128.
    pub group_size: i32,
    /// Element type of the result, to which x is promoted.
    pub dtype: Dtype,
    /// Element type of scales and biases.
    pub scale_dtype: Dtype,
}

/// The arrays of a product that the operations of this crate can compute.
#[derive(Debug, Clone)]
pub(crate) struct Operands {
    pub x: Array,
    pub w: Array,
    pub scales: Array,
    pub biases: Array,
}

impl Problem {
    /// Reads the product off its arguments.
    ///
    /// `None` for products that are legal in MLX but not in this crate's domain: a batch of weights,
    /// float64, or no biases. `transpose` is assumed true.
    ///
    /// # Errors
    ///
    /// Names the argument that does not fit, what it is and what it must be.
    pub(crate) fn read(
        x: &Array,
        w: &Array,
        scales: &Array,
        biases: Option<&Array>,
        group_size: i32,
        bits: i32,
    ) -> Result<Option<(Self, Operands)>, Error> {
        let Some(biases) = biases else {
            return Ok(None);
        };
        check_format(bits, group_size)?;
        check_dtypes(x, w, scales, biases)?;
        if w.ndim() != 2 || scales.ndim() != 2 {
            return Ok(None);
        }
        let scale_dtype = Dtype::from_promoting_types(scales.dtype(), biases.dtype());
        let dtype = Dtype::from_promoting_types(x.dtype(), scale_dtype);
        if [x, scales, biases]
            .iter()
            .any(|array| !is_supported(array.dtype()))
        {
            return Ok(None);
        }
        let (n, k) = (w.dim(0), scales.dim(1) * group_size);
        check_shapes(x, w, scales, biases, k, bits)?;
        if n == 0 || k == 0 {
            return Ok(None);
        }
        let rows = x.shape()[..x.ndim() - 1].iter().product();
        let problem = Self {
            rows,
            n,
            k,
            bits,
            group_size,
            dtype,
            scale_dtype,
        };
        let operands = Operands {
            x: cast(x, dtype)?,
            w: w.clone(),
            scales: cast(scales, scale_dtype)?,
            biases: cast(biases, scale_dtype)?,
        };
        Ok(Some((problem, operands)))
    }

    /// Bytes of the packed weight with its scales and biases.
    pub fn weight_bytes(&self) -> u64 {
        let weights = self.n as u64 * self.k as u64;
        let scale_size = if self.scale_dtype == Dtype::Float32 {
            4
        } else {
            2
        };
        weights * self.bits as u64 / 8 + weights / self.group_size as u64 * 2 * scale_size
    }
}

/// An array of this element type, the array itself where it has it already.
fn cast(array: &Array, dtype: Dtype) -> Result<Array, Error> {
    if array.dtype() == dtype {
        Ok(array.clone())
    } else {
        Ok(array.as_dtype(dtype)?)
    }
}

fn check_format(bits: i32, group_size: i32) -> Result<(), Error> {
    for (argument, found, known) in [
        ("bits", bits, &BITS[..]),
        ("group_size", group_size, &GROUP_SIZES[..]),
    ] {
        if !known.contains(&found) {
            let expected = format!("one of {known:?}");
            return Err(Error::Value {
                op: OP,
                argument,
                found: found.to_string(),
                expected,
            });
        }
    }
    Ok(())
}

fn check_dtypes(x: &Array, w: &Array, scales: &Array, biases: &Array) -> Result<(), Error> {
    let refuse = |argument, array: &Array, expected: &str| {
        let (found, expected) = (array.dtype(), expected.to_owned());
        Err(Error::Dtype {
            op: OP,
            argument,
            found,
            expected,
        })
    };
    if w.dtype() != Dtype::Uint32 {
        return refuse("w", w, "uint32 words of packed codes");
    }
    for (argument, array) in [("x", x), ("scales", scales), ("biases", biases)] {
        if !array.dtype().is_float() {
            return refuse(argument, array, "float32, float16 or bfloat16");
        }
    }
    Ok(())
}

fn check_shapes(
    x: &Array,
    w: &Array,
    scales: &Array,
    biases: &Array,
    k: i32,
    bits: i32,
) -> Result<(), Error> {
    let refuse = |argument, array: &Array, expected: String| {
        Err(Error::Shape {
            op: OP,
            argument,
            found: array.shape().to_vec(),
            expected,
        })
    };
    if biases.shape() != scales.shape() {
        return refuse("biases", biases, format!("{:?}, as scales", scales.shape()));
    }
    let n = w.dim(0);
    if scales.dim(0) != n {
        return refuse(
            "scales",
            scales,
            format!("[{n}, K / group_size], a row for each row of w"),
        );
    }
    let words = k / 32 * bits;
    if w.dim(1) != words {
        let groups = scales.dim(1);
        return refuse(
            "w",
            w,
            format!("[{n}, {words}]: {bits}-bit codes of {groups} groups, K = {k}"),
        );
    }
    if x.ndim() == 0 || x.dim(-1) != k {
        return refuse("x", x, format!("a last dimension of K = {k}"));
    }
    Ok(())
}
