//! A strip: some consecutive outputs of the weight, as one thread takes them.

use std::cell::RefCell;

use super::Problem;
use crate::Floats;
use crate::simd::layout::WINDOW;

thread_local! {
    /// Widened scales and biases of the strip at hand, kept to save an allocation a strip.
    static SCRATCH: RefCell<(Vec<f32>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// The packed weights of some consecutive outputs, with their scales and biases in `f32`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strip<'a> {
    /// The outputs in the strip.
    pub(super) columns: usize,
    /// `columns * words_per_row` words, and all that follow them in the weight.
    pub(super) words: &'a [u32],
    /// `columns * groups_per_row` scales.
    pub(super) scales: &'a [f32],
    /// As many biases.
    pub(super) biases: &'a [f32],
    /// Bits a weight.
    pub(super) bits: usize,
    /// Words of one output.
    pub(super) words_per_row: usize,
    /// Groups of one output.
    pub(super) groups_per_row: usize,
    /// Weights in a group.
    pub(super) group_size: usize,
}

impl Strip<'_> {
    /// Whether [`WINDOW`] words may be read from the start of every block of the outputs before
    /// `end`. Only the weight's last outputs can lack them.
    pub(super) fn has_windows(&self, end: usize) -> bool {
        end * self.words_per_row + WINDOW <= self.words.len() + self.bits
    }
}

/// A whole weight, checked against its problem.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weight<'a> {
    pub(super) problem: Problem,
    pub(super) words: &'a [u32],
    pub(super) scales: Floats<'a>,
    pub(super) biases: Floats<'a>,
}

impl Weight<'_> {
    /// Runs `body` on outputs `first .. first + columns`.
    pub(super) fn with_strip(&self, first: usize, columns: usize, body: impl FnOnce(&Strip<'_>)) {
        let words_per_row = self.problem.words_per_row();
        let groups_per_row = self.problem.groups_per_row();
        let words = &self.words[first * words_per_row..];
        let groups = first * groups_per_row..(first + columns) * groups_per_row;
        if let (Floats::F32(scales), Floats::F32(biases)) = (self.scales, self.biases) {
            return body(&self.strip(columns, words, &scales[groups.clone()], &biases[groups]));
        }
        SCRATCH.with_borrow_mut(|(scales, biases)| {
            scales.resize(groups.len(), 0.0);
            biases.resize(groups.len(), 0.0);
            self.scales.widen_into(groups.start, scales);
            self.biases.widen_into(groups.start, biases);
            body(&self.strip(columns, words, scales, biases));
        });
    }

    /// A strip of this weight.
    fn strip<'a>(
        &self,
        columns: usize,
        words: &'a [u32],
        scales: &'a [f32],
        biases: &'a [f32],
    ) -> Strip<'a> {
        Strip {
            columns,
            words,
            scales,
            biases,
            bits: self.problem.bits(),
            words_per_row: self.problem.words_per_row(),
            groups_per_row: self.problem.groups_per_row(),
            group_size: self.problem.group_size(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_with_the_weight() {
        for bits in [2, 3, 4, 5, 6, 8] {
            let problem = Problem::new(1, 12, 32, bits, 32).expect("a valid problem");
            let (words, parameters) = (vec![0; 12 * bits], [0.0; 12]);
            let scales = Floats::F32(&parameters);
            let weight = Weight {
                problem,
                words: &words,
                scales,
                biases: scales,
            };
            for (first, columns) in [(0, 12), (0, 4), (5, 7)] {
                weight.with_strip(first, columns, |strip| {
                    for end in 1..=columns {
                        let last_block = (first + end - 1) * bits;
                        assert_eq!(strip.has_windows(end), last_block + WINDOW <= words.len());
                    }
                });
            }
        }
    }
}
