//! A matrix in trellis codes.

use safetensors::View;
use trellis_codec::{Axis, Encoder, Format, Layout};

use super::parts::{Distortion, Part, StoredTensor};
use super::recipe::Task;
use crate::error::{ModelError, Result};

/// Encodes a row-major `[outputs, inputs]` matrix.
pub(super) fn encode(
    task: &Task,
    values: &[f32],
    format: Format,
    axis: Axis,
    layout: Layout,
) -> Result<Part> {
    let [outputs, inputs] = task.shape.map(|size| size as usize);
    let encoded = Encoder::new(format)
        .encode_weight(values, outputs, inputs, axis, layout)
        .map_err(|source| ModelError::Encode {
            name: task.path.clone(),
            source,
        })?;
    let tensors = encoded.module.tensors(&task.path);
    Ok(Part {
        tensors: tensors
            .into_iter()
            .map(|(name, tensor)| StoredTensor {
                name,
                dtype: tensor.dtype(),
                shape: tensor.shape().to_vec(),
                bytes: tensor.data().into_owned(),
            })
            .collect(),
        distortion: Distortion {
            error: encoded.distortion.error,
            power: encoded.distortion.power,
        },
    })
}
