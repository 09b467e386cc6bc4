//! The greedy token.

use std::sync::atomic::{AtomicU64, Ordering};

use super::normalizer::logsumexp;
use super::{BLOCK, BLOCKS_PER_PART, EFFORT};
use crate::error::{check_length, check_type, whole_rows};
use crate::{Error, Execution, Floats, threads};

/// The first index of the largest `round(logits - logsumexp)` in each row, with `round` to the
/// logits' type.
///
/// Rounding makes equals of logits that are close, so that this may differ from the plain argmax
/// of `logits`; it is what `argmax(logits - logsumexp(logits))` gives in MLX. A score that is not a
/// number counts as minus infinity, so that a row without a finite `logsumexp` gives 0.
///
/// * `logits`: `[rows, vocabulary]`, with as many rows as `ids` has elements.
/// * `logsumexp`: `[rows]`, of the type of `logits`.
/// * `ids`: `[rows]`.
///
/// # Errors
///
/// [`Error::Empty`] if rows have no logits, [`Error::Rows`], [`Error::Length`] and
/// [`Error::ElementType`] for arrays that do not fit. Nothing is written then.
pub fn normalized_argmax(
    logits: Floats<'_>,
    logsumexp: Floats<'_>,
    ids: &mut [u32],
) -> Result<(), Error> {
    let rows = ids.len();
    check_length("logsumexp", logsumexp.len(), rows)?;
    check_type(
        "logsumexp",
        logsumexp.float_type(),
        "logits",
        logits.float_type(),
    )?;
    let Some(vocabulary) = check(logits, rows)? else {
        return Ok(());
    };
    let mut sums = vec![0.0; rows];
    logsumexp.widen_into(0, &mut sums);
    pick(logits, vocabulary, &sums, ids);
    Ok(())
}

/// [`normalized_argmax`] by the logits alone: their `logsumexp` is summed in `f32`, with exponentials
/// to about 1 part in 10^7, and rounded to the logits' type.
///
/// # Errors
///
/// [`Error::Empty`], [`Error::Rows`] and [`Error::Length`] as there.
pub fn greedy_token(logits: Floats<'_>, ids: &mut [u32]) -> Result<(), Error> {
    let Some(vocabulary) = check(logits, ids.len())? else {
        return Ok(());
    };
    let mut sums = logsumexp(logits, ids.len(), vocabulary);
    logits.float_type().round(&mut sums);
    pick(logits, vocabulary, &sums, ids);
    Ok(())
}

/// The logits in each of `rows` rows; `None` of no rows.
fn check(logits: Floats<'_>, rows: usize) -> Result<Option<usize>, Error> {
    if rows == 0 {
        check_length("logits", logits.len(), 0)?;
        return Ok(None);
    }
    let vocabulary = logits.len() / rows;
    if vocabulary == 0 {
        return Err(Error::Empty { argument: "logits" });
    }
    whole_rows("logits", logits.len(), vocabulary)
        .and_then(|whole| check_length("ids", rows, whole))?;
    if u32::try_from(vocabulary).is_err() {
        return Err(Error::TooLarge {
            argument: "logits",
            rows,
            columns: vocabulary,
        });
    }
    Ok(Some(vocabulary))
}

/// Writes the first best id of each row under its `logsumexp`.
fn pick(logits: Floats<'_>, vocabulary: usize, sums: &[f32], ids: &mut [u32]) {
    let rows = ids.len();
    let best: Vec<AtomicU64> = (0..rows).map(|_| AtomicU64::new(0)).collect();
    let part_size = BLOCK * BLOCKS_PER_PART;
    let parts_per_row = vocabulary.div_ceil(part_size);
    let effort = EFFORT * logits.len();
    threads::share(
        rows * parts_per_row,
        Execution::default().threads,
        effort,
        &|part| {
            let (row, part) = (part / parts_per_row, part % parts_per_row);
            let ids = part * part_size..vocabulary.min((part + 1) * part_size);
            let candidate = best_of(logits, row * vocabulary, ids, sums[row]);
            best[row].fetch_max(candidate, Ordering::Relaxed);
        },
    );
    for (id, best) in ids.iter_mut().zip(best) {
        *id = !(best.into_inner() as u32);
    }
}

/// The best candidate of some ids of the row that begins at `start`.
fn best_of(logits: Floats<'_>, start: usize, ids: std::ops::Range<usize>, logsumexp: f32) -> u64 {
    let float_type = logits.float_type();
    let mut room = [0.0; BLOCK];
    let mut best = 0;
    let mut best_score = f32::NEG_INFINITY;
    for first in ids.clone().step_by(BLOCK) {
        let scores = &mut room[..BLOCK.min(ids.end - first)];
        logits.widen_into(start + first, scores);
        for score in scores.iter_mut() {
            *score -= logsumexp;
        }
        float_type.round(scores);
        // `max` passes over what is not a number.
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if best == 0 || largest > best_score {
            let index = scores
                .iter()
                .position(|&score| score == largest)
                .unwrap_or(0);
            (best, best_score) = (candidate(largest, (first + index) as u32), largest);
        }
    }
    best
}

/// A score and its id as a number that is larger the larger the score, then the lower the id;
/// never 0.
fn candidate(score: f32, id: u32) -> u64 {
    // Minus zero becomes zero, which it ties with.
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 31 == 0 {
        bits | 0x8000_0000
    } else {
        !bits
    };
    u64::from(ordered) << 32 | u64::from(!id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_ordered_by_score_then_by_lower_id() {
        let scores = [f32::NEG_INFINITY, -2.0, -1.0, 0.0, 1.0e-40, 3.0];
        for pair in scores.windows(2) {
            assert!(candidate(pair[0], 0) < candidate(pair[1], 9));
        }
        assert!(candidate(1.0, 4) > candidate(1.0, 5));
        assert_eq!(candidate(-0.0, 4), candidate(0.0, 4));
        assert_ne!(candidate(f32::NEG_INFINITY, u32::MAX), 0);
    }
}
