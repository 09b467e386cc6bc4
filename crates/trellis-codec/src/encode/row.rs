//! One row: the search for its scale around the encoding of its blocks.

use half::f16;

use super::ScaleSearch;
use super::scale::{Fit, code_rms, normalize, predicted_factor, rms_scale, to_f16};
use super::simd::SimdLevel;
use super::tail_biting::{Scratch, Seam, close_walk, find_seam};
use super::viterbi::Trellis;

/// Candidates of the searches, relative to the prediction. On Gaussian rows the error rises by 0.1 % (k = 3) at 2 % off
/// the best scale; that of one row scatters by 0.3 % (4096 weights) to 0.7 % (1024) between neighbouring scales.
const BALANCED: [f64; 3] = [1.0, 0.98, 1.02];
const THOROUGH: [f64; 5] = [1.0, 0.97, 1.03, 0.94, 1.06];

/// What encodes rows: the tables of a format, an instruction set and the kind of search.
#[derive(Clone, Debug)]
pub(crate) struct RowEncoder {
    pub(crate) trellis: Trellis,
    pub(crate) level: SimdLevel,
    pub(crate) search: ScaleSearch,
    code_rms: f64,
}

/// Working memory of one thread.
#[derive(Debug, Default)]
pub(crate) struct RowScratch {
    blocks: Scratch,
    normalized: Vec<f32>,
    /// Of each candidate, for each block, where it was tried.
    seams: [Vec<Option<Seam>>; BALANCED.len()],
    candidate: Vec<u16>,
}

/// An encoded row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedRow {
    /// The scale its samples were divided by.
    pub(crate) divisor: f16,
    /// The scale stored.
    pub(crate) scale: f16,
    /// Squared error at the stored scale.
    pub(crate) error: f64,
    /// Squared norm of the row.
    pub(crate) power: f64,
}

impl RowEncoder {
    pub(crate) fn new(trellis: Trellis, level: SimdLevel, search: ScaleSearch) -> Self {
        let code_rms = code_rms(trellis.format());
        Self {
            trellis,
            level,
            search,
            code_rms,
        }
    }

    /// Encodes a row with a scale of the encoder's choice.
    pub(crate) fn encode(
        &self,
        row: &[f32],
        scratch: &mut RowScratch,
        states: &mut [u16],
    ) -> EncodedRow {
        if row.iter().all(|&w| w == 0.0) {
            return self.encode_at(f16::ONE, row, scratch, states);
        }
        let rms_scale = rms_scale(row, self.code_rms);
        let predicted = || rms_scale * predicted_factor(row, rms_scale, self.trellis.format());
        match self.search {
            ScaleSearch::Rms => self.encode_at(to_f16(rms_scale), row, scratch, states),
            ScaleSearch::Fast => self.encode_fitted(to_f16(predicted()), row, scratch, states),
            ScaleSearch::Balanced => self.search_seams(predicted(), row, scratch, states),
            ScaleSearch::Thorough => self.search_rows(predicted(), row, scratch, states),
        }
    }

    /// Encodes a row at a given scale.
    pub(crate) fn encode_at(
        &self,
        scale: f16,
        row: &[f32],
        scratch: &mut RowScratch,
        states: &mut [u16],
    ) -> EncodedRow {
        normalize(row, scale, &mut scratch.normalized);
        let block = self.trellis.format().block();
        for (samples, states) in scratch
            .normalized
            .chunks_exact(block)
            .zip(states.chunks_exact_mut(block))
        {
            let seam = find_seam(self.level, &self.trellis, samples, &mut scratch.blocks);
            close_walk(
                self.level,
                &self.trellis,
                samples,
                seam.overlap,
                &mut scratch.blocks,
                states,
            );
        }
        let fit = Fit::new(row, states, self.trellis.values());
        EncodedRow {
            divisor: scale,
            scale,
            error: fit.error(scale),
            power: fit.power(),
        }
    }

    /// Encodes a row at a given scale and then fits the scale to the states.
    fn encode_fitted(
        &self,
        divisor: f16,
        row: &[f32],
        scratch: &mut RowScratch,
        states: &mut [u16],
    ) -> EncodedRow {
        self.encode_at(divisor, row, scratch, states);
        self.fit(divisor, row, states)
    }

    /// Picks the candidate whose seam windows have the least error; most are needed for the encoding anyway.
    fn search_seams(
        &self,
        predicted: f64,
        row: &[f32],
        scratch: &mut RowScratch,
        states: &mut [u16],
    ) -> EncodedRow {
        let block = self.trellis.format().block();
        let candidates = BALANCED.map(|factor| to_f16(predicted * factor));
        for (index, &candidate) in candidates.iter().enumerate() {
            self.try_candidate(index, candidate, row, scratch);
        }
        let chosen = least_error(&candidates, &scratch.seams);
        normalize(row, candidates[chosen], &mut scratch.normalized);
        let blocks = scratch
            .normalized
            .chunks_exact(block)
            .zip(states.chunks_exact_mut(block));
        for ((samples, states), tried) in blocks.zip(&scratch.seams[chosen]) {
            let seam = tried.unwrap_or_else(|| {
                find_seam(self.level, &self.trellis, samples, &mut scratch.blocks)
            });
            close_walk(
                self.level,
                &self.trellis,
                samples,
                seam.overlap,
                &mut scratch.blocks,
                states,
            );
        }
        self.fit(candidates[chosen], row, states)
    }

    /// Finds the seams of a candidate: in every block for the first, in every other block for the rest.
    fn try_candidate(&self, index: usize, candidate: f16, row: &[f32], scratch: &mut RowScratch) {
        normalize(row, candidate, &mut scratch.normalized);
        let seams = &mut scratch.seams[index];
        seams.clear();
        let blocks = scratch
            .normalized
            .chunks_exact(self.trellis.format().block());
        let alone = blocks.len() == 1;
        for (i, samples) in blocks.enumerate() {
            let tried = index == 0 || alone || i % 2 == index % 2;
            let find = || find_seam(self.level, &self.trellis, samples, &mut scratch.blocks);
            seams.push(tried.then(find));
        }
    }

    /// Encodes the row with every candidate and keeps the best.
    fn search_rows(
        &self,
        predicted: f64,
        row: &[f32],
        scratch: &mut RowScratch,
        states: &mut [u16],
    ) -> EncodedRow {
        let mut best = self.encode_fitted(to_f16(predicted), row, scratch, states);
        let mut candidate_states = std::mem::take(&mut scratch.candidate);
        candidate_states.resize(row.len(), 0);
        for factor in &THOROUGH[1..] {
            let divisor = to_f16(predicted * factor);
            let candidate = self.encode_fitted(divisor, row, scratch, &mut candidate_states);
            if candidate.error < best.error {
                best = candidate;
                states.copy_from_slice(&candidate_states);
            }
        }
        scratch.candidate = candidate_states;
        best
    }

    /// Fits the stored scale to the states.
    fn fit(&self, divisor: f16, row: &[f32], states: &[u16]) -> EncodedRow {
        let fit = Fit::new(row, states, self.trellis.values());
        let scale = fit.best_scale(divisor);
        EncodedRow {
            divisor,
            scale,
            error: fit.error(scale),
            power: fit.power(),
        }
    }
}

/// The candidate of least error relative to the first, each compared on the blocks it was tried on.
fn least_error(candidates: &[f16], seams: &[Vec<Option<Seam>>]) -> usize {
    let (mut least, mut chosen) = (1.0, 0);
    for (index, tried) in seams.iter().enumerate().skip(1) {
        let pairs = seams[0].iter().zip(tried);
        let (mut first, mut this) = (0.0, 0.0);
        for (a, b) in pairs.filter_map(|(a, b)| Some(((*a)?, (*b)?))) {
            first += f64::from(a.cost);
            this += f64::from(b.cost);
        }
        let ratio =
            this * candidates[index].to_f64().powi(2) / (first * candidates[0].to_f64().powi(2));
        if ratio < least {
            (least, chosen) = (ratio, index);
        }
    }
    chosen
}
