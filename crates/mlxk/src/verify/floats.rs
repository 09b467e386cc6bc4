//! The three element types: rounding, limits, and arrays of them.

use half::{bf16, f16};
use mlx_rs::{Array, Dtype};

use super::Failure;

/// The element types that every kernel takes.
pub const FLOATS: [Dtype; 3] = [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16];

/// The type's name, as MLX writes it.
pub fn name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Float16 => "float16",
        Dtype::Bfloat16 => "bfloat16",
        _ => "float32",
    }
}

/// `value` rounded to `dtype`, ties to even, and widened again.
pub fn round(value: f32, dtype: Dtype) -> f32 {
    match dtype {
        Dtype::Float16 => f16::from_f32(value).to_f32(),
        Dtype::Bfloat16 => bf16::from_f32(value).to_f32(),
        _ => value,
    }
}

/// Half the distance of neighbouring numbers, relative.
pub fn unit_roundoff(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float16 => (-11_f64).exp2(),
        Dtype::Bfloat16 => (-8_f64).exp2(),
        _ => (-24_f64).exp2(),
    }
}

/// The smallest positive number that has the type's full precision.
pub fn smallest_normal(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float16 => (-14_f64).exp2(),
        _ => (-126_f64).exp2(),
    }
}

/// The smallest positive number.
pub fn smallest_subnormal(dtype: Dtype) -> f64 {
    2.0 * unit_roundoff(dtype) * smallest_normal(dtype)
}

/// An array of `dtype` holding these values, rounded.
pub fn array(values: &[f32], shape: &[i32], dtype: Dtype) -> Array {
    match dtype {
        Dtype::Float16 => {
            let values: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
            Array::from_slice(&values, shape)
        }
        Dtype::Bfloat16 => {
            let values: Vec<bf16> = values.iter().map(|&value| bf16::from_f32(value)).collect();
            Array::from_slice(&values, shape)
        }
        _ => Array::from_slice(values, shape),
    }
}

/// The elements in row-major order, widened. Evaluates the array.
///
///
/// When the kernel that makes the array fails.
pub fn values(array: &Array) -> Result<Vec<f32>, Failure> {
    let wide = array.reshape(&[-1])?.as_dtype(Dtype::Float32)?;
    wide.eval()?;
    wide.to_vec_exact::<f32>().map_err(Failure::run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_types() {
        assert_eq!(smallest_subnormal(Dtype::Float16), (-24_f64).exp2());
        assert_eq!(smallest_subnormal(Dtype::Bfloat16), (-133_f64).exp2());
        assert_eq!(smallest_subnormal(Dtype::Float32), (-149_f64).exp2());
        for dtype in FLOATS {
            let above_one = 1.0 + unit_roundoff(dtype) as f32;
            assert_eq!(round(above_one, dtype), 1.0, "a tie goes to even");
            let next = 1.0 + 2.0 * unit_roundoff(dtype) as f32;
            assert_eq!(round(next, dtype), next);
        }
    }

    #[test]
    fn arrays_give_back_what_they_hold() {
        for dtype in FLOATS {
            let third = array(&[1.0 / 3.0, -0.0], &[2], dtype);
            let back = values(&third).unwrap();
            assert_eq!(back[0], round(1.0 / 3.0, dtype));
            assert_eq!(back[1].to_bits(), (-0.0_f32).to_bits());
        }
    }
}
