//! Error feedback from a Hessian factor (`BlockLDLQ`): the error of the inputs encoded so far is made up for by those
//! still to come, weighted by how they occur together.
//!
//! With `H = (L) D (L)^T` in blocks of `T` input features and `e` the error of one output's weights, the layer's output
//! error is `e H e^T = |(e L) D^(1/2)|^2`. Blocks are encoded from the last to the first; block `b` encodes
//! `W_b + sum over later c of e_c L[c, b]`, so that what is left of `(e L)_b` is the rounding error alone.

mod gemm;
mod hessian;

use half::f16;
use rayon::prelude::*;

use crate::encode::row::RowScratch;
use crate::encode::{pack_row, transpose};
use crate::{
    Axis, Distortion, Encoded, Encoder, Error, Geometry, Layout, Result, TrellisModule, codebook,
    interleave,
};
use gemm::{Matrix, add_transposed_product};
pub use hessian::{Hessian, HessianFactor};

/// Bounds on an encoding with error feedback.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeedbackLimits {
    /// The largest normalized weight a block may come to, relative to the largest of the plain weight.
    pub peak: f32,
    /// Bytes of working memory.
    pub memory: usize,
}

impl Default for FeedbackLimits {
    fn default() -> Self {
        Self {
            peak: 4.0,
            memory: 20 << 30,
        }
    }
}

/// An encoding with error feedback.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedbackEncoded {
    /// The encoding; `distortion` is that of the weights, not of the layer's output.
    pub encoded: Encoded,
    /// Whether the feedback grew past its limit, and `encoded` is the plain encoding instead.
    pub tripped: bool,
}

impl Encoder {
    /// Encodes a layer's weight, `[outputs, inputs]` row-major, with error feedback over its inputs.
    ///
    /// Scales are those of the plain encoding; a zero factor gives its codes too. The factor's blocks are the code's when
    /// that runs along the inputs. Along the outputs each input is coded by itself, and the error is the smaller the
    /// shorter they are; the inputs of one are coded in parallel. Takes 16 bytes a weight and the factor.
    ///
    /// # Errors
    /// As [`Encoder::encode_weight`]; [`Error::FactorSize`], [`Error::FactorBlock`], [`Error::Memory`].
    pub fn encode_with_feedback(
        &self,
        weight: &[f32],
        outputs: usize,
        inputs: usize,
        axis: Axis,
        layout: Layout,
        factor: &HessianFactor,
        limits: FeedbackLimits,
    ) -> Result<FeedbackEncoded> {
        if factor.features() != inputs {
            return Err(Error::FactorSize {
                found: factor.features(),
                expected: inputs,
            });
        }
        if axis == Axis::Input && factor.block() != self.format().block() {
            return Err(Error::FactorBlock {
                found: factor.block(),
                expected: self.format().block(),
            });
        }
        let needed = weight
            .len()
            .saturating_mul(16)
            .saturating_add(factor.elements().len() * 4);
        if needed > limits.memory {
            return Err(Error::Memory {
                what: "encoding with error feedback",
                needed,
                ceiling: limits.memory,
            });
        }
        let plain = self.encode_weight(weight, outputs, inputs, axis, layout)?;
        let run = Feedback {
            encoder: self,
            axis,
            outputs,
            inputs,
            plain: &plain,
            factor,
        };
        match run.encode(&transpose(weight, outputs, inputs), limits)? {
            Some(encoded) => Ok(FeedbackEncoded {
                encoded,
                tripped: false,
            }),
            None => Ok(FeedbackEncoded {
                encoded: plain,
                tripped: true,
            }),
        }
    }
}

/// One encoding under way.
struct Feedback<'a> {
    encoder: &'a Encoder,
    axis: Axis,
    outputs: usize,
    inputs: usize,
    plain: &'a Encoded,
    factor: &'a HessianFactor,
}

impl Feedback<'_> {
    /// Encodes `by_input`, the weight as `[inputs, outputs]`. `None` when a block grows past its limit.
    fn encode(&self, by_input: &[f32], limits: FeedbackLimits) -> Result<Option<Encoded>> {
        let (block, n, m) = (self.factor.block(), self.inputs, self.outputs);
        let geometry = self.plain.module.geometry().with_layout(Layout::Rows)?;
        let mut codes = vec![0; geometry.words()];
        let mut feedback = vec![0.0; n * m];
        let ceiling = limits.peak * self.peak(by_input, 0);
        let mut distortion = Distortion {
            error: 0.0,
            power: self.plain.distortion.power,
        };
        for first in (0..n).step_by(block).rev() {
            let original = &by_input[first * m..(first + block) * m];
            let target: Vec<f32> = original
                .iter()
                .zip(&feedback[first * m..])
                .map(|(w, p)| w + p)
                .collect();
            let peak = self.peak(&target, first);
            if !peak.is_finite() || peak > ceiling {
                return Ok(None);
            }
            let mut error = self.encode_block(&geometry, &target, first, &mut codes);
            for (error, w) in error.iter_mut().zip(original) {
                *error = w - *error;
            }
            distortion.error += error.iter().map(|&e| f64::from(e).powi(2)).sum::<f64>();
            if first > 0 {
                let rows = &self.factor.elements()[first * n..];
                let rows = Matrix::new(rows, block, first, n);
                let error = Matrix::new(&error, block, m, m);
                add_transposed_product(rows, error, &mut feedback[..first * m]);
            }
        }
        self.finish(&geometry, codes, distortion).map(Some)
    }

    /// The largest magnitude of weights `[.., outputs]` from input `first` on, relative to their scales.
    fn peak(&self, weights: &[f32], first: usize) -> f32 {
        let divisors = &self.plain.divisors;
        // A sum of infinities may be NaN, which `max` would lose.
        let magnitude = |w: f32, divisor: f16| {
            let x = (w / divisor.to_f32()).abs();
            if x.is_nan() { f32::INFINITY } else { x }
        };
        let rows = weights.par_chunks(self.outputs.max(1)).enumerate();
        rows.map(|(i, row)| match self.axis {
            Axis::Output => row
                .iter()
                .map(|&w| magnitude(w, divisors[first + i]))
                .fold(0.0, f32::max),
            Axis::Input => row
                .iter()
                .zip(divisors)
                .map(|(&w, &d)| magnitude(w, d))
                .fold(0.0, f32::max),
        })
        .reduce(|| 0.0, f32::max)
    }

    /// Encodes the block of inputs from `first` on, `target` as `[block, outputs]`, into its place among `codes`.
    /// Returns its decoded weights, as `[block, outputs]`.
    fn encode_block(
        &self,
        geometry: &Geometry,
        target: &[f32],
        first: usize,
        codes: &mut [u32],
    ) -> Vec<f32> {
        let format = self.encoder.format();
        let (block, wpb) = (self.factor.block(), format.words_per_block());
        match self.axis {
            Axis::Output => {
                let words = geometry.words_per_row();
                let codes = &mut codes[first * words..(first + block) * words];
                self.encode_rows(
                    target,
                    self.outputs,
                    first,
                    codes.par_chunks_mut(words.max(1)),
                )
            }
            Axis::Input => {
                let sequences = transpose(target, block, self.outputs);
                let place = first / block * wpb;
                let words = codes.par_chunks_mut(geometry.words_per_row());
                let words = words.map(|row| &mut row[place..place + wpb]);
                let decoded = self.encode_rows(&sequences, block, 0, words);
                transpose(&decoded, self.outputs, block)
            }
        }
    }

    /// Encodes sequences of `cols` samples that belong to the stored rows from `first_row` on.
    fn encode_rows<'c>(
        &self,
        sequences: &[f32],
        cols: usize,
        first_row: usize,
        words: impl IndexedParallelIterator<Item = &'c mut [u32]>,
    ) -> Vec<f32> {
        let mut decoded = vec![0.0; sequences.len()];
        if decoded.is_empty() {
            return decoded;
        }
        let values = codebook::values(self.encoder.format().state_bits());
        let scales = self.plain.module.scales();
        let rows = sequences
            .par_chunks(cols)
            .zip(decoded.par_chunks_mut(cols))
            .zip(words)
            .enumerate();
        rows.for_each_init(
            || (RowScratch::default(), vec![0; cols]),
            |(scratch, states), (i, ((row, decoded), words))| {
                let index = first_row + i;
                self.encoder
                    .rows
                    .encode_at(self.plain.divisors[index], row, scratch, states);
                pack_row(self.encoder.format(), states, words);
                let scale = scales[index].to_f32();
                for (decoded, &state) in decoded.iter_mut().zip(states.iter()) {
                    *decoded = values[usize::from(state)] * scale;
                }
            },
        );
        decoded
    }

    fn finish(
        &self,
        rowwise: &Geometry,
        codes: Vec<u32>,
        distortion: Distortion,
    ) -> Result<Encoded> {
        let (geometry, codes) = match self.plain.module.geometry().layout() {
            Layout::Rows => (*rowwise, codes),
            Layout::BlockPairs => interleave(rowwise, &codes)?,
        };
        let module = TrellisModule::new(geometry, codes, self.plain.module.scales().to_vec())?;
        Ok(Encoded {
            module,
            distortion,
            divisors: self.plain.divisors.clone(),
        })
    }
}
