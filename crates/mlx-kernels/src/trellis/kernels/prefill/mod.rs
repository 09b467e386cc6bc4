//! Products for a handful of rows and more, with weights of the exact contract rounded to x's
//! element type.
//!
//! Each kernel adds its products in the order of one of MLX's kernels for dense bfloat16 matrices,
//! so on Apple GPUs its result has the bits of the stock product with the expanded weight, wherever
//! MLX takes that kernel. (On GPUs whose stock products run on neural accelerators it takes none of
//! them.) Which GPUs and extents profit is not decided here: the predicates say what the kernels
//! take, not where they are fast.

mod partition;
mod split;
mod tiled;
mod wide;

use std::ops::RangeInclusive;

use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Geometry};

pub use partition::SplitPartition;
pub use split::{prefill_splitk, prefill_splitk_is_eligible};
pub use tiled::{prefill_tiled, prefill_tiled_is_eligible};
pub use wide::{prefill_wide, prefill_wide_is_eligible};

use super::super::TrellisWeight;
use super::operands::unsupported_geometry;
use crate::Error;
use crate::host::is_supported;

/// Features from which on a grid, which counts threads in 32 bits, might not hold a launch.
const TOO_MANY_FEATURES: i32 = 1 << 27;

/// One of the kernels, and what it takes.
struct Form {
    op: &'static str,
    /// Rows of x.
    rows: RangeInclusive<i32>,
    axis: Axis,
    /// What else it asks of the extents.
    takes: fn(rows: i32, inputs: i32, outputs: i32) -> bool,
    /// Axis and extents in words.
    expected: &'static str,
}

impl Form {
    fn is_eligible(&self, geometry: &Geometry, rows: i32, dtype: Dtype) -> bool {
        is_supported(dtype) && self.rows.contains(&rows) && self.takes_weight(geometry, rows)
    }

    fn takes_weight(&self, geometry: &Geometry, rows: i32) -> bool {
        let count = |features| i32::try_from(features).unwrap_or(i32::MAX);
        let inputs = count(geometry.input_features());
        let outputs = count(geometry.output_features());
        geometry.axis() == self.axis
            && (1..TOO_MANY_FEATURES).contains(&inputs)
            && (1..TOO_MANY_FEATURES).contains(&outputs)
            && (self.takes)(rows, inputs, outputs)
    }

    /// The rows of x, `[M, inputs]`.
    ///
    /// # Errors
    ///
    /// Says what the form does not support: x's dtype or shape, or the weight's geometry.
    fn check(&self, x: &Array, weight: &TrellisWeight) -> Result<i32, Error> {
        if !is_supported(x.dtype()) {
            return Err(Error::Dtype {
                op: self.op,
                argument: "x",
                found: x.dtype(),
                expected: "float32, float16 or bfloat16; no other dtype is supported".into(),
            });
        }
        let inputs = weight.inputs();
        match *x.shape() {
            [rows, width] if width == inputs && self.rows.contains(&rows) => {
                if self.takes_weight(weight.geometry(), rows) {
                    Ok(rows)
                } else {
                    Err(unsupported_geometry(self.op, weight, self.expected))
                }
            }
            _ => Err(Error::Shape {
                op: self.op,
                argument: "x",
                found: x.shape().to_vec(),
                expected: format!(
                    "[M, {inputs}] with M from {} to {}; no other geometry is supported",
                    self.rows.start(),
                    self.rows.end()
                ),
            }),
        }
    }
}
