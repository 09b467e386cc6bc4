//! Writing a model anew as a folder of quantized tensors, one tensor at a time.
//!
//! Every projection of the decoder blocks is coded, in trellis codes or in MLX's affine mode. The
//! embedding table and the output head stay as the source has them, or become 8-bit affine where
//! they are dense; norms and biases are copied.
//!
//! Finished tensors are kept beside the output, in `OUT.partial`, with a manifest of the options and
//! of the input's files. A run that was interrupted goes on where it stopped if both are the same.
//! The output folder appears whole, by a rename, or not at all. Up to the rename the disk holds the
//! coded tensors twice.

mod affine;
mod calibration;
mod parts;
mod publish;
mod recipe;
mod source;
mod summary;
mod trellis;

use std::path::Path;

use trellis_codec::Axis;

pub use summary::{KindSummary, Summary};

use crate::error::{ModelError, Result};
use calibration::Calibration;
use parts::{Part, PartStore};
use recipe::{Recipe, Task};
use source::Source;

/// What weights are turned into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Trellis codes of 12 state bits, in the longest blocks of up to 256 weights that fit.
    Trellis {
        /// The axis that down projections are coded along; all others are coded along their inputs.
        down_axis: Axis,
        /// Whether codes along the outputs are interleaved by pairs of blocks.
        interleave: bool,
        /// Seed of a rotation of the residual stream, in whose basis the blocks are coded.
        rotation: Option<u64>,
        /// Tokens that the model reads, in windows, for the statistics of error feedback.
        calibration: Option<Vec<Vec<u32>>>,
    },
    /// MLX's affine mode.
    Affine {
        /// Weights that share a scale and a bias.
        group_size: i32,
    },
}

/// How a model is quantized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantizeOptions {
    /// The format.
    pub mode: Mode,
    /// Bits per weight.
    pub bits: u32,
    /// Other bits for layers whose path matches a pattern, in which `*` stands for any text; the
    /// last match counts.
    pub bits_for: Vec<(String, u32)>,
}

/// A tensor that is done.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Path of its layer.
    pub path: &'a str,
    /// Weights of this tensor.
    pub weights: usize,
    /// Weights of all tensors.
    pub total: usize,
    /// Whether an earlier run had done it.
    pub resumed: bool,
}

/// Quantizes the model at `input` (a GGUF file or a folder) into the new folder `output`.
/// `progress` hears of each tensor.
///
/// # Errors
/// An output that exists; options that do not fit a tensor, before any is coded; a partial output of
/// other options, of another input or in use by another process; whatever is wrong with the input;
/// files that cannot be written. What was finished then stays in `OUT.partial`.
pub fn quantize(
    input: &Path,
    output: &Path,
    options: &QuantizeOptions,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<Summary> {
    if output.symlink_metadata().is_ok() {
        return Err(ModelError::OutputExists {
            path: output.into(),
        });
    }
    let (rotation, calibration) = match &options.mode {
        Mode::Trellis {
            rotation,
            calibration,
            ..
        } => (*rotation, calibration.as_deref()),
        Mode::Affine { .. } => (None, None),
    };
    let mut source = Source::open(input, rotation)?;
    let tasks = recipe::tasks(source.config(), options)?;
    let store = PartStore::open(output, &parts::manifest(input, options)?)?;
    let mut calibration = calibration
        .map(|windows| Calibration::open(input, rotation, windows))
        .transpose()?;
    let total = tasks.iter().map(Task::weights).sum();
    let mut resumed = 0;
    for task in &tasks {
        let done = store.contains(&task.path);
        if !done {
            store.write(&task.path, &part(&mut source, calibration.as_mut(), task)?)?;
        }
        resumed += usize::from(done);
        progress(Step {
            path: &task.path,
            weights: task.weights(),
            total,
            resumed: done,
        });
    }
    if !store.contains(source::REST) {
        store.write(source::REST, &source.rest()?)?;
    }
    let summary = Summary::gather(&store, &tasks, resumed)?;
    publish::publish(&store, &source, &tasks, output)?;
    Ok(summary)
}

fn part(source: &mut Source, calibration: Option<&mut Calibration>, task: &Task) -> Result<Part> {
    match task.recipe {
        Recipe::Keep => source.kept(task),
        Recipe::Affine(scheme) => affine::encode(task, &source.matrix(task)?, scheme),
        Recipe::Trellis {
            format,
            axis,
            layout,
        } => {
            let code = trellis::Code {
                format,
                axis,
                layout,
            };
            let factor = match calibration.zip(task.site) {
                Some((calibration, site)) => {
                    Some(calibration.factor(site, code.feedback_block(task.shape[1] as usize))?)
                }
                None => None,
            };
            trellis::encode(task, &source.matrix(task)?, code, factor)
        }
    }
}
