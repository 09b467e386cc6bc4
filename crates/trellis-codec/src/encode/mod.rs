//! The encoder: tail-biting Viterbi over all states, rows in parallel.
//!
//! # Cost, and what bounds it
//!
//! A step of the recursion over 4096 states is 256 AVX-512 (512 AVX2) groups of a subtraction, a fused multiply-add
//! and a minimum, with one load each: arithmetic on both vector ports bounds it, at 384 (768) cycles; the tables and
//! two cost vectors stay in the first cache. An encoding takes 1.5 steps per weight ([`ScaleSearch::Fast`]), about 2.2
//! ([`ScaleSearch::Balanced`]; 2.5 for rows of one block) or 7.5
//! ([`ScaleSearch::Thorough`]) at k of 3 and more. The example `encode_rate` prints weights per second and core, and the
//! error.
//!
//! Memory per core: `4 (T + 1) 2^(L-k)` bytes of costs (0.5 MB at k = 3, L = 12, T = 256; 2 MB at k = 1) and 12 bytes
//! for each weight of a row.

#![allow(
    clippy::inline_always,
    reason = "instructions are inlined into a function that enables their set, or they are calls"
)]

mod aligned;
pub(crate) mod row;
mod scale;
pub(crate) mod simd;
pub(crate) mod tail_biting;
pub(crate) mod viterbi;

use half::f16;
use rayon::prelude::*;

use crate::error::expect_length;
use crate::packing::pack_block;
use crate::{Axis, Error, Format, Geometry, Layout, Result, TrellisModule, interleave};

use row::{EncodedRow, RowEncoder, RowScratch};
pub use simd::SimdLevel;
use viterbi::Trellis;

/// How the scale of a row is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScaleSearch {
    /// The row's root mean square over that of the code, and nothing more.
    Rms,
    /// The scale that a model of the code's error predicts from the distribution of the row's magnitudes; after the
    /// encoding, the least-squares fit to the states.
    Fast,
    /// Three candidates around the prediction, compared by the windows that decide the seams of the blocks: half of the
    /// weights of every other block. Then as `Fast`.
    #[default]
    Balanced,
    /// Five candidates around the prediction, each encoded and fitted; the best is kept.
    Thorough,
}

/// Squared error and squared norm of what was encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distortion {
    /// Sum of the squared errors.
    pub error: f64,
    /// Sum of the squared weights.
    pub power: f64,
}

impl Distortion {
    /// Error power over signal power; 0 for a matrix of zeros.
    #[must_use]
    pub fn relative(&self) -> f64 {
        if self.power > 0.0 {
            self.error / self.power
        } else {
            0.0
        }
    }
}

/// An encoded matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// The codes and scales.
    pub module: TrellisModule,
    /// How far they are from the weights.
    pub distortion: Distortion,
    /// What each row's weights were divided by before encoding: the scales without the final fit.
    pub divisors: Vec<f16>,
}

/// Turns matrices into trellis codes; the same input gives the same codes whatever the instruction set and the number of
/// threads.
#[derive(Clone, Debug)]
pub struct Encoder {
    pub(crate) rows: RowEncoder,
}

impl Encoder {
    /// An encoder of a format with the fastest instruction set of this machine and the default search.
    #[must_use]
    pub fn new(format: Format) -> Self {
        let level = SimdLevel::detect();
        let trellis = Trellis::new(format, level.width());
        Self {
            rows: RowEncoder::new(trellis, level, ScaleSearch::default()),
        }
    }

    /// The same encoder with another search.
    #[must_use]
    pub fn with_search(mut self, search: ScaleSearch) -> Self {
        self.rows.search = search;
        self
    }

    /// The same encoder on another instruction set; the codes do not change.
    ///
    /// # Errors
    /// [`Error::SimdLevel`] when the machine does not have it.
    pub fn with_simd(self, level: SimdLevel) -> Result<Self> {
        if !SimdLevel::available().contains(&level) {
            return Err(Error::SimdLevel { level });
        }
        let trellis = Trellis::new(self.format(), level.width());
        Ok(Self {
            rows: RowEncoder::new(trellis, level, self.rows.search),
        })
    }

    /// The format of the codes.
    #[must_use]
    pub fn format(&self) -> Format {
        self.rows.trellis.format()
    }

    /// Encodes a layer's weight, `[outputs, inputs]` row-major, along an axis.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::NotFinite`], or what [`Geometry::new`] refuses.
    pub fn encode_weight(
        &self,
        weight: &[f32],
        outputs: usize,
        inputs: usize,
        axis: Axis,
        layout: Layout,
    ) -> Result<Encoded> {
        let (rows, cols) = match axis {
            Axis::Output => (inputs, outputs),
            Axis::Input => (outputs, inputs),
        };
        let geometry = Geometry::new(self.format(), axis, layout, rows, cols)?;
        expect_length("the weight", weight.len(), geometry.weights())?;
        match axis {
            Axis::Output => self.encode_stored(&geometry, &transpose(weight, outputs, inputs)),
            Axis::Input => self.encode_stored(&geometry, weight),
        }
    }

    /// Encodes a matrix that is already in stored orientation, `[rows, cols]` of the geometry.
    ///
    /// # Errors
    /// [`Error::Format`] when the geometry is of another format, [`Error::Length`], [`Error::NotFinite`].
    pub fn encode_stored(&self, geometry: &Geometry, stored: &[f32]) -> Result<Encoded> {
        self.check(geometry, stored)?;
        self.encode_rows(geometry, stored, |_, row, scratch, states| {
            self.rows.encode(row, scratch, states)
        })
    }

    /// Encodes a matrix in stored orientation with given scales, which are stored as they are.
    ///
    /// # Errors
    /// As [`Encoder::encode_stored`]; [`Error::BadScale`] for a scale that is 0 or not finite.
    pub fn encode_with_scales(
        &self,
        geometry: &Geometry,
        stored: &[f32],
        scales: &[f16],
    ) -> Result<Encoded> {
        self.check(geometry, stored)?;
        check_scales(scales, geometry.rows())?;
        self.encode_rows(geometry, stored, |index, row, scratch, states| {
            self.rows.encode_at(scales[index], row, scratch, states)
        })
    }

    fn check(&self, geometry: &Geometry, stored: &[f32]) -> Result<()> {
        if geometry.format() != self.format() {
            return Err(Error::Format {
                found: geometry.format(),
                expected: self.format(),
            });
        }
        expect_length("the weight", stored.len(), geometry.weights())?;
        check_finite("the weight", stored, geometry.cols())
    }

    fn encode_rows(
        &self,
        geometry: &Geometry,
        stored: &[f32],
        encode: impl Fn(usize, &[f32], &mut RowScratch, &mut [u16]) -> EncodedRow + Sync,
    ) -> Result<Encoded> {
        let rowwise = geometry.with_layout(Layout::Rows)?;
        let mut codes = vec![0; rowwise.words()];
        let rows: Vec<EncodedRow> = if geometry.weights() == 0 {
            let empty = EncodedRow {
                divisor: f16::ONE,
                scale: f16::ONE,
                error: 0.0,
                power: 0.0,
            };
            vec![empty; geometry.rows()]
        } else {
            let words = codes.par_chunks_mut(rowwise.words_per_row());
            let inputs = stored.par_chunks(geometry.cols()).zip(words).enumerate();
            let scratch = || (RowScratch::default(), vec![0; geometry.cols()]);
            inputs
                .map_init(scratch, |(scratch, states), (index, (row, words))| {
                    let encoded = encode(index, row, scratch, states);
                    pack_row(self.format(), states, words);
                    encoded
                })
                .collect()
        };
        let distortion = Distortion {
            error: rows.iter().map(|row| row.error).sum(),
            power: rows.iter().map(|row| row.power).sum(),
        };
        let scales = rows.iter().map(|row| row.scale).collect();
        let divisors = rows.iter().map(|row| row.divisor).collect();
        let (geometry, codes) = match geometry.layout() {
            Layout::Rows => (rowwise, codes),
            Layout::BlockPairs => interleave(&rowwise, &codes)?,
        };
        Ok(Encoded {
            module: TrellisModule::new(geometry, codes, scales)?,
            distortion,
            divisors,
        })
    }
}

pub(crate) fn pack_row(format: Format, states: &[u16], words: &mut [u32]) {
    let blocks = states.chunks_exact(format.block());
    for (states, words) in blocks.zip(words.chunks_exact_mut(format.words_per_block())) {
        pack_block(format, states, words);
    }
}

pub(crate) fn check_finite(what: &'static str, matrix: &[f32], cols: usize) -> Result<()> {
    match matrix.par_iter().position_first(|w| !w.is_finite()) {
        None => Ok(()),
        Some(i) => Err(Error::NotFinite {
            what,
            row: i / cols,
            col: i % cols,
            value: matrix[i],
        }),
    }
}

fn check_scales(scales: &[f16], rows: usize) -> Result<()> {
    expect_length("the array of scales", scales.len(), rows)?;
    match scales
        .iter()
        .position(|scale| !scale.is_finite() || *scale == f16::ZERO)
    {
        None => Ok(()),
        Some(row) => Err(Error::BadScale {
            row,
            value: scales[row].to_f32(),
        }),
    }
}

/// The transpose of a `rows` x `cols` matrix.
pub(crate) fn transpose(matrix: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    const TILE: usize = 32;
    let mut transposed = vec![0.0; matrix.len()];
    if matrix.is_empty() {
        return transposed;
    }
    transposed
        .par_chunks_mut(TILE * rows)
        .enumerate()
        .for_each(|(tile, out)| {
            for row in 0..rows {
                for (i, out) in out.chunks_exact_mut(rows).enumerate() {
                    out[row] = matrix[row * cols + tile * TILE + i];
                }
            }
        });
    transposed
}
