//! A strip: some consecutive outputs of the weight, as one thread takes them.

use std::cell::RefCell;

use super::Problem;
use crate::Floats;

thread_local! {
    /// Widened scales and biases of the strip at hand, kept to save an allocation a strip.
    static SCRATCH: RefCell<(Vec<f32>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// The packed weights of some consecutive outputs, with their scales and biases in `f32`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strip<'a> {
    /// `columns * words_per_row` words.
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
    /// The outputs in the strip.
    pub(super) fn columns(&self) -> usize {
        self.words.len() / self.words_per_row
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
        let words = &self.words[first * words_per_row..(first + columns) * words_per_row];
        let groups = first * groups_per_row..(first + columns) * groups_per_row;
        if let (Floats::F32(scales), Floats::F32(biases)) = (self.scales, self.biases) {
            return body(&self.strip(words, &scales[groups.clone()], &biases[groups]));
        }
        SCRATCH.with_borrow_mut(|(scales, biases)| {
            scales.resize(groups.len(), 0.0);
            biases.resize(groups.len(), 0.0);
            self.scales.widen_into(groups.start, scales);
            self.biases.widen_into(groups.start, biases);
            body(&self.strip(words, scales, biases));
        });
    }

    /// A strip of this weight.
    fn strip<'a>(&self, words: &'a [u32], scales: &'a [f32], biases: &'a [f32]) -> Strip<'a> {
        Strip {
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
