//! What is to be done with each matrix of a model.

use trellis_codec::{Axis, DEFAULT_STATE_BITS, Format, Geometry, Layout};

use super::{Mode, QuantizeOptions};
use crate::config::{ModelConfig, QuantizationScheme};
use crate::error::{ModelError, Result};
use crate::statistics::Site;

/// One matrix, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    /// Path of its layer, such as `model.layers.0.mlp.up_proj`.
    pub(super) path: String,
    /// Output and input features.
    pub(super) shape: [i32; 2],
    pub(super) recipe: Recipe,
    /// Block and place of its input; `None` outside the blocks.
    pub(super) site: Option<(usize, Site)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recipe {
    /// As the source has it if that is quantized, else 8-bit affine.
    Keep,
    Affine(QuantizationScheme),
    Trellis {
        format: Format,
        axis: Axis,
        layout: Layout,
    },
}

impl Task {
    pub(super) fn weights(&self) -> usize {
        self.shape.iter().map(|&size| size as usize).product()
    }

    /// Name of its kind of layer: the last part of the path.
    pub(super) fn kind(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }
}

/// The projections of every block in order, then the head and the embedding table. Everything that
/// does not fit the options is refused here.
pub(super) fn tasks(config: &ModelConfig, options: &QuantizeOptions) -> Result<Vec<Task>> {
    let mut matched = vec![false; options.bits_for.len()];
    let mut tasks = Vec::new();
    for layer in 0..config.layers {
        for (kind, shape) in config.projections() {
            let path = kind.path(layer);
            let bits = bits(&path, options, &mut matched);
            let recipe = recipe(&path, shape, &options.mode, bits)?;
            tasks.push(Task {
                path,
                shape,
                recipe,
                site: Site::of(kind).map(|site| (layer, site)),
            });
        }
    }
    if let Some(index) = matched.iter().position(|matched| !matched) {
        return Err(ModelError::invalid(
            "pattern of layers with other bits",
            format!("`{}`", options.bits_for[index].0),
            "one that a layer's path matches, such as `*.down_proj`",
        ));
    }
    let head = (config.tied_head != Some(true)).then_some("lm_head");
    for path in head.into_iter().chain(["model.embed_tokens"]) {
        tasks.push(Task {
            path: path.into(),
            shape: [config.vocabulary, config.hidden_size],
            recipe: Recipe::Keep,
            site: None,
        });
    }
    Ok(tasks)
}

fn bits(path: &str, options: &QuantizeOptions, matched: &mut [bool]) -> u32 {
    let mut bits = options.bits;
    for ((pattern, other), matched) in options.bits_for.iter().zip(matched) {
        if matches(pattern, path) {
            bits = *other;
            *matched = true;
        }
    }
    bits
}

/// Whether `text` is `pattern` with each `*` replaced by some text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            text.char_indices()
                .map(|(index, _)| &text[index..])
                .chain([""])
                .any(|text| matches(rest, text))
        }),
    }
}

fn recipe(path: &str, [outputs, inputs]: [i32; 2], mode: &Mode, bits: u32) -> Result<Recipe> {
    match *mode {
        Mode::Affine { group_size } => {
            let bits = i32::try_from(bits).unwrap_or(i32::MAX);
            let scheme = QuantizationScheme::new(bits, group_size)?;
            if inputs % group_size != 0 {
                return Err(ModelError::Quantization {
                    name: path.into(),
                    what: "number of input features",
                    found: inputs.to_string(),
                    expected: format!("a multiple of the group size {group_size}"),
                });
            }
            Ok(Recipe::Affine(scheme))
        }
        Mode::Trellis {
            down_axis,
            interleave,
            ..
        } => {
            let is_down = path.ends_with("down_proj");
            let axis = if is_down { down_axis } else { Axis::Input };
            let (rows, cols) = match axis {
                Axis::Input => (outputs as usize, inputs as usize),
                Axis::Output => (inputs as usize, outputs as usize),
            };
            let layout = match axis {
                Axis::Output if interleave => Layout::BlockPairs,
                _ => Layout::Rows,
            };
            let named = |source| ModelError::Encode {
                name: path.into(),
                source,
            };
            let format = Format::fitting(bits, DEFAULT_STATE_BITS, cols).map_err(named)?;
            Geometry::new(format, axis, layout, rows, cols).map_err(named)?;
            Ok(Recipe::Trellis {
                format,
                axis,
                layout,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths() {
        let path = "model.layers.12.mlp.down_proj";
        for pattern in ["*", "*.down_proj", "model.layers.12.*", "*.12.*down*", path] {
            assert!(matches(pattern, path), "{pattern}");
        }
        for pattern in ["", "down_proj", "*.1.*", "*up*", "model.layers.12"] {
            assert!(!matches(pattern, path), "{pattern}");
        }
    }

    #[test]
    fn recipes_choose_axis_and_block() {
        let trellis = |down_axis, interleave| Mode::Trellis {
            down_axis,
            interleave,
            rotation: None,
            calibration: None,
        };
        let choose = |name: &str, shape, mode: &Mode| match recipe(name, shape, mode, 3).unwrap() {
            Recipe::Trellis {
                format,
                axis,
                layout,
            } => (format.block(), axis, layout),
            other => panic!("{other:?}"),
        };
        let (up, down) = ([1536, 576], [576, 1536]);
        let rows = Layout::Rows;
        let by_output = trellis(Axis::Output, false);
        assert_eq!(
            choose("x.up_proj", up, &by_output),
            (192, Axis::Input, rows)
        );
        assert_eq!(
            choose("x.down_proj", down, &by_output),
            (192, Axis::Output, rows)
        );
        let by_input = trellis(Axis::Input, false);
        assert_eq!(
            choose("x.down_proj", down, &by_input),
            (256, Axis::Input, rows)
        );
        let pairs = choose("x.down_proj", [512, 96], &trellis(Axis::Output, true));
        assert_eq!(pairs, (256, Axis::Output, Layout::BlockPairs));

        // Three blocks of 192 are no pairs.
        let error = recipe("x.down_proj", down, &trellis(Axis::Output, true), 3).unwrap_err();
        assert!(error.to_string().contains("x.down_proj"), "{error}");
        let affine = Mode::Affine { group_size: 128 };
        let error = recipe("x.up_proj", up, &affine, 3).unwrap_err().to_string();
        assert!(error.contains("576") && error.contains("128"), "{error}");
    }
}
