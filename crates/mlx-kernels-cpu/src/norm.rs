//! Residual addition and RMS norm in one pass.

use crate::error::{check_length, check_type, whole_rows};
use crate::float::SharedFloats;
use crate::{Error, Execution, Floats, FloatsMut, threads};

/// Elements that a part of the work has at least: some microseconds' worth.
const PART: usize = 1 << 14;

/// What an element costs, in the multiply-adds that threads are counted by.
const EFFORT: usize = 16;

/// `residual = x + update` and its RMS norm, row by row.
///
/// With `round` meaning to the arrays' common type, `f32` arithmetic, and a mean over the row:
///
/// ```text
/// residual   = round(x + update)
/// normalized = round(weight * round(residual / sqrt(mean(residual^2) + eps)))
/// ```
///
/// * `weight`: `[size]`.
/// * `x`, `update`, `residual`, `normalized`: `[rows, size]`, of the type of `weight`.
///
/// This is MLX's `add` followed by its `rms_norm`, roundings included; only the sum of squares is
/// taken in another order.
///
/// # Errors
///
/// [`Error::Empty`] without weights, [`Error::Rows`] and [`Error::Length`] for arrays that do not
/// fit, [`Error::ElementType`] for arrays of several types, [`Error::Negative`] if `eps` is
/// negative or not a number. Nothing is written then.
pub fn add_rms_norm(
    x: Floats<'_>,
    update: Floats<'_>,
    weight: Floats<'_>,
    eps: f32,
    mut residual: FloatsMut<'_>,
    mut normalized: FloatsMut<'_>,
) -> Result<(), Error> {
    let size = weight.len();
    if size == 0 {
        return Err(Error::Empty { argument: "weight" });
    }
    let rows = whole_rows("x", x.len(), size)?;
    check_length("update", update.len(), x.len())?;
    check_length("residual", residual.len(), x.len())?;
    check_length("normalized", normalized.len(), x.len())?;
    let float_type = x.float_type();
    for (argument, got) in [
        ("update", update.float_type()),
        ("weight", weight.float_type()),
        ("residual", residual.float_type()),
        ("normalized", normalized.float_type()),
    ] {
        check_type(argument, got, "x", float_type)?;
    }
    if eps.is_nan() || eps < 0.0 {
        return Err(Error::Negative {
            argument: "eps",
            got: eps.to_string(),
        });
    }

    let mut widened = vec![0.0; size];
    weight.widen_into(0, &mut widened);
    let norm = Norm {
        x,
        update,
        weight: &widened,
        eps,
    };
    let (residual, normalized) = (residual.shared(), normalized.shared());
    let rows_per_part = PART.div_ceil(size);
    let parts = rows.div_ceil(rows_per_part);
    let effort = EFFORT * rows * size;
    threads::share(parts, Execution::default().threads, effort, &|part| {
        let mut values = vec![0.0; size];
        let mut added = vec![0.0; size];
        for row in part * rows_per_part..rows.min((part + 1) * rows_per_part) {
            // SAFETY: each row belongs to one part, and both slices are borrowed until the end.
            unsafe { norm.row(row, &mut values, &mut added, residual, normalized) };
        }
    });
    Ok(())
}

/// The inputs.
struct Norm<'a> {
    x: Floats<'a>,
    update: Floats<'a>,
    weight: &'a [f32],
    eps: f32,
}

impl Norm<'_> {
    /// One row; `values` and `added` are room for it.
    ///
    /// # Safety
    ///
    /// `residual` and `normalized` have the row, and no other thread touches it.
    unsafe fn row(
        &self,
        row: usize,
        values: &mut [f32],
        added: &mut [f32],
        residual: SharedFloats,
        normalized: SharedFloats,
    ) {
        let float_type = self.x.float_type();
        let start = row * values.len();
        self.x.widen_into(start, values);
        self.update.widen_into(start, added);
        for (value, added) in values.iter_mut().zip(added) {
            *value += *added;
        }
        float_type.round(values);
        // SAFETY: the row is this thread's.
        unsafe { residual.write(start, values) };
        let mean = sum_of_squares(values) / values.len() as f32;
        let factor = 1.0 / (mean + self.eps).sqrt();
        for value in values.iter_mut() {
            *value *= factor;
        }
        float_type.round(values);
        for (value, weight) in values.iter_mut().zip(self.weight) {
            *value *= weight;
        }
        // SAFETY: as above.
        unsafe { normalized.write(start, values) };
    }
}

/// The sum of the squares, in sixteen sums that are folded at the end.
fn sum_of_squares(values: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    let (whole, rest) = values.as_chunks::<16>();
    for values in whole {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value * value;
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += value * value;
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
    }
    sums[0]
}
