//! A matrix in trellis codes.

use safetensors::View;
use trellis_codec::{Axis, Encoder, FeedbackLimits, Format, HessianFactor, Layout};

use super::parts::{Distortion, Part, StoredTensor};
use super::recipe::Task;
use crate::error::{ModelError, Result};

/// Input features that error feedback takes together where it may choose: as few as give every core a row.
const FEEDBACK_BLOCK: usize = 32;

/// How a matrix is coded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Code {
    pub(super) format: Format,
    pub(super) axis: Axis,
    pub(super) layout: Layout,
}

impl Code {
    /// Input features that error feedback takes together: along the inputs, those of one block of codes.
    pub(super) fn feedback_block(self, inputs: usize) -> usize {
        match self.axis {
            Axis::Output if inputs.is_multiple_of(FEEDBACK_BLOCK) => FEEDBACK_BLOCK,
            Axis::Output => 1,
            Axis::Input => self.format.block(),
        }
    }
}

/// Encodes a row-major `[outputs, inputs]` matrix, with error feedback if there is a factor.
pub(super) fn encode(
    task: &Task,
    values: &[f32],
    code: Code,
    factor: Option<&HessianFactor>,
) -> Result<Part> {
    let Code {
        format,
        axis,
        layout,
    } = code;
    let [outputs, inputs] = task.shape.map(|size| size as usize);
    let encoder = Encoder::new(format);
    let encoded = match factor {
        None => encoder
            .encode_weight(values, outputs, inputs, axis, layout)
            .map(|encoded| (encoded, false)),
        Some(factor) => {
            let limits = FeedbackLimits::default();
            encoder
                .encode_with_feedback(values, outputs, inputs, axis, layout, factor, limits)
                .map(|feedback| (feedback.encoded, feedback.tripped))
        }
    };
    let (encoded, tripped) = encoded.map_err(|source| ModelError::Encode {
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
        tripped,
    })
}
