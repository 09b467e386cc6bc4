//! The geometry of a coded module, derived from its arrays' shapes and checked against its configuration entry.

use safetensors::Dtype;

use crate::config::is_unmarked_pair_format;
use crate::{Axis, Error, Format, Layout, ModuleEntry, Result};

/// What a coded module is: its code, its stored matrix and the arrangement of its words.
///
/// The stored matrix has `rows` rows of `cols` coded columns: the weight `[out, in]` itself when the axis is
/// [`Axis::Input`], its transpose when it is [`Axis::Output`]. A value of this type is always consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    format: Format,
    axis: Axis,
    layout: Layout,
    rows: usize,
    cols: usize,
}

impl Geometry {
    /// The geometry of a stored matrix of `rows` x `cols` weights.
    ///
    /// # Errors
    /// [`Error::PartialBlock`] when `cols` is no multiple of the block, [`Error::Layout`] when block pairs are asked
    /// of axis 1, [`Error::BlockPairs`] when there is no whole number of them, [`Error::TooLarge`].
    pub fn new(
        format: Format,
        axis: Axis,
        layout: Layout,
        rows: usize,
        cols: usize,
    ) -> Result<Self> {
        if !cols.is_multiple_of(format.block()) {
            return Err(Error::PartialBlock {
                cols,
                block: format.block(),
            });
        }
        if rows
            .checked_mul(cols)
            .is_none_or(|n| n > isize::MAX as usize / 8)
        {
            return Err(Error::TooLarge {
                shape: vec![rows, cols],
            });
        }
        let geometry = Self {
            format,
            axis,
            layout,
            rows,
            cols,
        };
        if layout == Layout::BlockPairs {
            geometry.check_pairs()?;
        }
        Ok(geometry)
    }

    fn check_pairs(&self) -> Result<()> {
        if self.axis != Axis::Output {
            return Err(Error::Layout(
                "codes can be interleaved by block pairs only along axis 0",
            ));
        }
        let blocks = self.blocks_per_row();
        if self.rows == 0 || blocks == 0 || !blocks.is_multiple_of(2) {
            let shape = vec![self.rows, self.words_per_row()];
            return Err(Error::BlockPairs {
                shape,
                pair: 2 * self.format.words_per_block(),
            });
        }
        Ok(())
    }

    /// Derives the geometry from the dtype and shape of the codes and the shape of the scales.
    ///
    /// The checks come in this order: the entry is a trellis entry of a known code with parameters in range; the
    /// codes are uint32; three dimensions hold interleaved block pairs; otherwise there are two; the words of a row
    /// are whole symbols; the columns whole blocks; a block whole words; one scale per stored row.
    ///
    /// # Errors
    /// One variant of [`Error`] for each check.
    pub fn derive(
        entry: &ModuleEntry,
        dtype: Dtype,
        codes: &[usize],
        scales: &[usize],
    ) -> Result<Self> {
        let block = entry.trellis_block()?;
        let format = Format::with_any_block(entry.bits, block.state_bits, entry.group_size)?;
        let axis = Axis::from_index(block.axis)?;
        if dtype != Dtype::U32 {
            return Err(Error::CodesDtype { found: dtype });
        }
        let geometry = match *codes {
            [groups, rows, words] => {
                Self::derive_pairs(format, axis, block.interleave, [groups, rows, words])?
            }
            [_, _] if block.interleave.is_some() => {
                return Err(interleaved(
                    codes,
                    "the entry marks block pairs, which have three dimensions".into(),
                ));
            }
            [rows, words] => Self::derive_rows(format, axis, rows, words)?,
            _ => return Err(Error::Rank { rank: codes.len() }),
        };
        if scales != [geometry.rows] {
            return Err(Error::Scales {
                found: scales.to_vec(),
                rows: geometry.rows,
            });
        }
        Ok(geometry)
    }

    fn derive_rows(format: Format, axis: Axis, rows: usize, words: usize) -> Result<Self> {
        let too_large = || Error::TooLarge {
            shape: vec![rows, words],
        };
        let bits = words.checked_mul(32).ok_or_else(too_large)?;
        if !bits.is_multiple_of(format.bits() as usize) {
            return Err(Error::PartialSymbol {
                words,
                bits: format.bits(),
            });
        }
        let cols = bits / format.bits() as usize;
        if !cols.is_multiple_of(format.block()) {
            return Err(Error::PartialBlock {
                cols,
                block: format.block(),
            });
        }
        format.check_block_bits()?;
        Self::new(format, axis, Layout::Rows, rows, cols)
    }

    fn derive_pairs(
        format: Format,
        axis: Axis,
        mark: Option<u32>,
        shape: [usize; 3],
    ) -> Result<Self> {
        let refuse = |reason: String| Err(interleaved(&shape, reason));
        let [groups, rows, words] = shape;
        match mark {
            Some(2) => format.check_block_bits()?,
            Some(other) => return refuse(format!("interleave is {other}: it must be 2")),
            None if is_unmarked_pair_format(format) => {}
            None => {
                return refuse(format!(
                    "without \"interleave\": 2 it must have k = 3, L = 12, T = 256, not k = {}, L = {}, T = {}",
                    format.bits(),
                    format.state_bits(),
                    format.block()
                ));
            }
        }
        let pair = 2 * format.words_per_block();
        if axis != Axis::Output {
            return refuse("the axis must be 0".into());
        }
        if words != pair {
            return refuse(format!("the last dimension must be {pair}"));
        }
        if groups == 0 || rows == 0 {
            return refuse("there must be at least one group and one row".into());
        }
        let cols = groups
            .checked_mul(2 * format.block())
            .ok_or(Error::TooLarge {
                shape: shape.to_vec(),
            })?;
        Self::new(format, axis, Layout::BlockPairs, rows, cols)
    }

    /// The code's parameters.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The coded axis.
    #[must_use]
    pub fn axis(&self) -> Axis {
        self.axis
    }

    /// The arrangement of the words.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Rows of the stored matrix, `R`.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Coded columns of the stored matrix, `C`.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Input features of the layer.
    #[must_use]
    pub fn input_features(&self) -> usize {
        match self.axis {
            Axis::Output => self.rows,
            Axis::Input => self.cols,
        }
    }

    /// Output features of the layer.
    #[must_use]
    pub fn output_features(&self) -> usize {
        match self.axis {
            Axis::Output => self.cols,
            Axis::Input => self.rows,
        }
    }

    /// Blocks of one stored row.
    #[must_use]
    pub fn blocks_per_row(&self) -> usize {
        self.cols / self.format.block()
    }

    /// Words of one stored row.
    #[must_use]
    pub fn words_per_row(&self) -> usize {
        self.blocks_per_row() * self.format.words_per_block()
    }

    /// Words of the whole code array.
    #[must_use]
    pub fn words(&self) -> usize {
        self.rows * self.words_per_row()
    }

    /// Weights of the stored matrix.
    #[must_use]
    pub fn weights(&self) -> usize {
        self.rows * self.cols
    }

    /// Stored bits per weight, the f16 scales included; 0 for an empty matrix.
    #[must_use]
    pub fn bits_per_weight(&self) -> f64 {
        if self.cols == 0 {
            0.0
        } else {
            f64::from(self.format.bits()) + 16.0 / self.cols as f64
        }
    }

    /// Shape of the code array.
    #[must_use]
    pub fn codes_shape(&self) -> Vec<usize> {
        match self.layout {
            Layout::Rows => vec![self.rows, self.words_per_row()],
            Layout::BlockPairs => vec![
                self.blocks_per_row() / 2,
                self.rows,
                2 * self.format.words_per_block(),
            ],
        }
    }

    /// Index of the first word of block `block` of row `row` in the code array; its other words follow it.
    #[must_use]
    pub fn block_offset(&self, row: usize, block: usize) -> usize {
        let wpb = self.format.words_per_block();
        match self.layout {
            Layout::Rows => (row * self.blocks_per_row() + block) * wpb,
            Layout::BlockPairs => ((block / 2 * self.rows + row) * 2 + block % 2) * wpb,
        }
    }

    /// The same module with its words arranged another way.
    ///
    /// # Errors
    /// As [`Geometry::new`].
    pub fn with_layout(&self, layout: Layout) -> Result<Self> {
        Self::new(self.format, self.axis, layout, self.rows, self.cols)
    }

    /// The configuration entry that describes this module.
    #[must_use]
    pub fn entry(&self) -> ModuleEntry {
        ModuleEntry::new(self.format, self.axis, self.layout)
    }
}

fn interleaved(shape: &[usize], reason: String) -> Error {
    Error::Interleaved {
        shape: shape.to_vec(),
        reason,
    }
}
