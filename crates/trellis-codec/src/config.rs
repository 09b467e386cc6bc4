//! A module's entry in the model configuration's quantization table.
//!
//! ```json
//! { "bits": 3, "group_size": 256, "mode": "trellis", "trellis": { "L": 12, "code": "1mad", "axis": 1 } }
//! ```
//!
//! A coded module `P` has the tensors `P.weight` and `P.scales`. Block pairs of widths other than the 3-bit one add
//! `"interleave": 2` to the inner block.

use serde::{Deserialize, Serialize};

use crate::{DEFAULT_BLOCK, DEFAULT_STATE_BITS, Error, Format, Result};

/// The name of the mode.
pub const MODE: &str = "trellis";
/// The name of the only code known.
pub const CODE: &str = "1mad";

/// The dimension of the layer's weight that the code runs along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Axis 0: along the output features; the stored matrix is the transpose `[in, out]` of the weight.
    Output,
    /// Axis 1: along the input features; the stored matrix is the weight `[out, in]`.
    Input,
}

impl Axis {
    /// The number used in configuration entries.
    #[must_use]
    pub fn index(self) -> u32 {
        match self {
            Self::Output => 0,
            Self::Input => 1,
        }
    }

    /// The axis of a configuration entry.
    ///
    /// # Errors
    /// [`Error::Axis`] for anything but 0 and 1.
    pub fn from_index(index: u32) -> Result<Self> {
        match index {
            0 => Ok(Self::Output),
            1 => Ok(Self::Input),
            found => Err(Error::Axis { found }),
        }
    }
}

/// How the words of a code array are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `[rows, words]`: the blocks of a row side by side.
    Rows,
    /// `[cols / (2 T), rows, 2 words per block]`: two adjacent blocks of a row, then the next row's.
    BlockPairs,
}

/// One module's entry of the quantization table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleEntry {
    /// Bits per weight, `k`.
    pub bits: u32,
    /// Weights per block, `T`.
    pub group_size: usize,
    /// The quantization mode, [`MODE`] for a trellis module.
    #[serde(default)]
    pub mode: String,
    /// The code's parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trellis: Option<TrellisEntry>,
}

/// The `trellis` block of a [`ModuleEntry`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrellisEntry {
    /// State bits, `L`.
    #[serde(rename = "L")]
    pub state_bits: u32,
    /// Name of the code, [`CODE`].
    pub code: String,
    /// The coded axis, 0 or 1.
    pub axis: u32,
    /// 2 marks codes interleaved by block pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interleave: Option<u32>,
}

impl ModuleEntry {
    /// The entry of a module. The mark of interleaved codes is left out where the 3-D shape alone says so: 3 bits,
    /// 12 state bits, blocks of 256.
    #[must_use]
    pub fn new(format: Format, axis: Axis, layout: Layout) -> Self {
        let marked = layout == Layout::BlockPairs && !is_unmarked_pair_format(format);
        Self {
            bits: format.bits(),
            group_size: format.block(),
            mode: MODE.to_owned(),
            trellis: Some(TrellisEntry {
                state_bits: format.state_bits(),
                code: CODE.to_owned(),
                axis: axis.index(),
                interleave: marked.then_some(2),
            }),
        }
    }

    /// Reads an entry of the quantization table.
    ///
    /// # Errors
    /// [`Error::NotTrellis`] when the entry is of another mode, [`Error::Entry`] when a field is missing or of the
    /// wrong type.
    pub fn from_json(entry: &serde_json::Value) -> Result<Self> {
        let mode = entry
            .get("mode")
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default();
        let has_block = entry
            .get("trellis")
            .is_some_and(serde_json::Value::is_object);
        if mode != MODE || !has_block {
            return Err(Error::NotTrellis {
                mode: mode.to_owned(),
                has_block,
            });
        }
        Self::deserialize(entry).map_err(|e| Error::Entry(e.to_string()))
    }

    /// The entry as it is written to the quantization table.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    /// The inner block of an entry whose mode is trellis and whose code is known.
    pub(crate) fn trellis_block(&self) -> Result<&TrellisEntry> {
        let Some(block) = self.trellis.as_ref().filter(|_| self.mode == MODE) else {
            return Err(Error::NotTrellis {
                mode: self.mode.clone(),
                has_block: self.trellis.is_some(),
            });
        };
        if block.code != CODE {
            return Err(Error::UnknownCode {
                found: block.code.clone(),
            });
        }
        Ok(block)
    }
}

/// Whether three dimensions alone say that codes of this format are interleaved.
pub(crate) fn is_unmarked_pair_format(format: Format) -> bool {
    (format.bits(), format.state_bits(), format.block()) == (3, DEFAULT_STATE_BITS, DEFAULT_BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_survive_json() {
        let documented = json!({
            "bits": 3, "group_size": 256, "mode": "trellis", "trellis": { "L": 12, "code": "1mad", "axis": 1 }
        });
        let format = Format::new(3, 12, 256).unwrap();
        let entry = ModuleEntry::new(format, Axis::Input, Layout::Rows);
        assert_eq!(entry.to_json(), documented);
        assert_eq!(ModuleEntry::from_json(&documented).unwrap(), entry);
    }

    #[test]
    fn only_formats_beside_the_three_bit_one_are_marked() {
        let mark = |bits, layout| {
            let entry = ModuleEntry::new(Format::new(bits, 12, 256).unwrap(), Axis::Output, layout);
            entry.trellis.unwrap().interleave
        };
        assert_eq!(mark(3, Layout::BlockPairs), None);
        assert_eq!(mark(2, Layout::BlockPairs), Some(2));
        assert_eq!(mark(2, Layout::Rows), None);
    }

    #[test]
    fn other_entries_are_refused() {
        let affine = json!({ "bits": 4, "group_size": 64, "mode": "affine" });
        let error = Error::NotTrellis {
            mode: "affine".into(),
            has_block: false,
        };
        assert_eq!(ModuleEntry::from_json(&affine), Err(error));
        let bare = json!({ "bits": 4, "group_size": 64 });
        assert!(matches!(
            ModuleEntry::from_json(&bare),
            Err(Error::NotTrellis { .. })
        ));
        let blockless = json!({ "bits": 4, "group_size": 64, "mode": "trellis" });
        let error = Error::NotTrellis {
            mode: "trellis".into(),
            has_block: false,
        };
        assert_eq!(ModuleEntry::from_json(&blockless), Err(error));
        let negative = json!({
            "bits": -1, "group_size": 256, "mode": "trellis", "trellis": { "L": 12, "code": "1mad", "axis": 1 }
        });
        assert!(matches!(
            ModuleEntry::from_json(&negative),
            Err(Error::Entry(_))
        ));
    }
}
