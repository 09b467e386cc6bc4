//! A matrix in MLX's affine mode.

use mlx_rs::{Array, Dtype};

use super::parts::{Distortion, Part};
use super::recipe::Task;
use super::source::stored;
use crate::config::QuantizationScheme;
use crate::error::{ModelError, Result};
use crate::weight::Weight;

/// Quantizes a row-major matrix, with float16 scales and biases.
pub(super) fn encode(task: &Task, values: &[f32], scheme: QuantizationScheme) -> Result<Part> {
    if let Some(index) = values.iter().position(|value| !value.is_finite()) {
        return Err(ModelError::Quantization {
            name: task.path.clone(),
            what: "a weight",
            found: values[index].to_string(),
            expected: "a finite number".into(),
        });
    }
    let dense = Weight::Dense(Array::from_slice(values, &task.shape));
    let weight = dense.requantize(&task.path, scheme, Dtype::Float16)?;
    let decoded = weight.to_float32()?.to_vec_cast::<f32>();
    let decoded =
        decoded.map_err(|error| ModelError::invalid(&task.path, error, "float32 values"))?;
    let mut distortion = Distortion::default();
    for (value, decoded) in values.iter().zip(decoded) {
        distortion.error += f64::from(value - decoded).powi(2);
        distortion.power += f64::from(*value).powi(2);
    }
    let Weight::Quantized(weight) = weight else {
        unreachable!("requantizing gives the affine format");
    };
    let parts = [
        ("weight", weight.packed()),
        ("scales", weight.scales()),
        ("biases", weight.biases()),
    ];
    let tensors = parts
        .into_iter()
        .map(|(part, array)| stored(format!("{}.{part}", task.path), array))
        .collect::<Result<_>>()?;
    Ok(Part {
        tensors,
        distortion,
        tripped: false,
    })
}
