//! Vocabulary masks.

use super::{BLOCK, BLOCKS_PER_PART, EFFORT};
use crate::error::{check_length, check_type, whole_rows};
use crate::{Error, Execution, Floats, FloatsMut, threads};

/// `masked = logits + (allowed ? 0 : -infinity)`, with one mask for all rows.
///
/// It is an addition, not a choice: what is not a number stays so, minus zero becomes zero, and
/// plus infinity that is not allowed becomes not a number.
///
/// * `logits`, `masked`: `[rows, vocabulary]`, of one type.
/// * `mask`: token `i` is allowed if bit `i % 32` of word `i / 32` is set. Missing words allow
///   nothing; words and bits past the vocabulary mean nothing.
///
/// # Errors
///
/// [`Error::Rows`], [`Error::Length`] and [`Error::ElementType`] for arrays that do not fit. Nothing
/// is written then.
pub fn apply_token_bitmask(
    logits: Floats<'_>,
    vocabulary: usize,
    mask: &[u32],
    mut masked: FloatsMut<'_>,
) -> Result<(), Error> {
    check_length("masked", masked.len(), logits.len())?;
    check_type("masked", masked.float_type(), "logits", logits.float_type())?;
    if logits.is_empty() {
        return Ok(());
    }
    let rows = whole_rows("logits", logits.len(), vocabulary)?;
    let masked = masked.shared();
    let part_size = BLOCK * BLOCKS_PER_PART;
    let parts_per_row = vocabulary.div_ceil(part_size);
    let effort = EFFORT * logits.len();
    threads::share(
        rows * parts_per_row,
        Execution::default().threads,
        effort,
        &|part| {
            let (row, part) = (part / parts_per_row, part % parts_per_row);
            let end = vocabulary.min((part + 1) * part_size);
            let mut room = [0.0; BLOCK];
            for first in (part * part_size..end).step_by(BLOCK) {
                let values = &mut room[..BLOCK.min(end - first)];
                let start = row * vocabulary + first;
                logits.widen_into(start, values);
                add_mask(values, mask.get(first / 32..).unwrap_or(&[]));
                // SAFETY: each block belongs to one part, and `masked` is borrowed until the end.
                unsafe { masked.write(start, values) };
            }
        },
    );
    Ok(())
}

/// Adds the mask whose first word belongs to the first value.
fn add_mask(values: &mut [f32], mask: &[u32]) {
    let words = mask.iter().copied().chain(std::iter::repeat(0));
    for (values, word) in values.chunks_mut(32).zip(words) {
        for (bit, value) in values.iter_mut().enumerate() {
            *value += if word >> bit & 1 == 1 {
                0.0
            } else {
                f32::NEG_INFINITY
            };
        }
    }
}
