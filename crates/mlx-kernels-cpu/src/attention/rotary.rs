//! Rotary position embedding.

use std::sync::{Arc, Mutex, PoisonError};

/// What rotates the leading dimensions of each head by angles that grow with the position.
///
/// Pair `i` of a head's rotated dimensions is turned by `position * position_scale / periods[i]`
/// radians. Cosines and sines are rounded from `f64`, and those of the last call are kept, since
/// the layers of a model ask for the same ones after each other.
#[derive(Debug)]
pub struct Rotary {
    periods: Vec<f64>,
    traditional: bool,
    position_scale: f64,
    factor: f32,
    last: Mutex<Arc<Turns>>,
}

/// Cosines and sines of some positions.
#[derive(Debug, Default)]
pub(super) struct Turns {
    first: usize,
    tokens: usize,
    /// `[token][pair]`: cosine and sine, each times the factor.
    pairs: Vec<[f32; 2]>,
}

impl Rotary {
    /// * `periods`: one a pair, in units of `1 / 2 pi` tokens.
    /// * `traditional`: whether a pair's dimensions are neighbours, else they lie half the rotated
    ///   width apart.
    /// * `factor`: a factor on the whole head, rotated or not.
    #[must_use]
    pub fn new(periods: Vec<f64>, traditional: bool, position_scale: f64, factor: f32) -> Self {
        Self {
            periods,
            traditional,
            position_scale,
            factor,
            last: Mutex::default(),
        }
    }

    /// Dimensions of a head that are rotated.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        2 * self.periods.len()
    }

    /// Cosines and sines for positions `first .. first + tokens`.
    pub(super) fn turns(&self, first: usize, tokens: usize) -> Arc<Turns> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if (last.first, last.tokens) != (first, tokens) {
            let positions = first..first + tokens;
            *last = Arc::new(Turns {
                first,
                tokens,
                pairs: positions
                    .flat_map(|position| self.turns_at(position))
                    .collect(),
            });
        }
        Arc::clone(&last)
    }

    fn turns_at(&self, position: usize) -> impl Iterator<Item = [f32; 2]> {
        let position = position as f64 * self.position_scale;
        self.periods.iter().map(move |period| {
            let (sine, cosine) = (position / period).sin_cos();
            [cosine as f32 * self.factor, sine as f32 * self.factor]
        })
    }

    /// Rotates a head of the token number `token` of `turns` in place.
    pub(super) fn rotate(&self, head: &mut [f32], turns: &Turns, token: usize) {
        let count = self.periods.len();
        let (rotated, rest) = head.split_at_mut(2 * count);
        let turns = &turns.pairs[token * count..][..count];
        if self.traditional {
            for (pair, turn) in rotated.as_chunks_mut::<2>().0.iter_mut().zip(turns) {
                *pair = turned(*pair, *turn);
            }
        } else {
            let (firsts, seconds) = rotated.split_at_mut(count);
            for ((a, b), turn) in firsts.iter_mut().zip(seconds).zip(turns) {
                [*a, *b] = turned([*a, *b], *turn);
            }
        }
        for value in rest {
            *value *= self.factor;
        }
    }
}

#[inline(always)]
fn turned([a, b]: [f32; 2], [cosine, sine]: [f32; 2]) -> [f32; 2] {
    [a * cosine - b * sine, a * sine + b * cosine]
}
