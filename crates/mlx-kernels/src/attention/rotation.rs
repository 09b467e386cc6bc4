//! Rotary position embedding, as MLX's operation and as the CPU code take it.

use std::sync::Arc;

use mlx_kernels_cpu::attention::Rotary;
use mlx_rs::{Array, fast};

use crate::Error;

/// What turns the pairs of a head's leading dimensions, by angles that grow with the position.
#[derive(Debug, Clone)]
pub struct Rotation {
    dimensions: i32,
    traditional: bool,
    /// `None` where `periods` holds what the base would give.
    base: Option<f32>,
    periods: Option<Array>,
    position_scale: f32,
    factor: f32,
    rotary: Arc<Rotary>,
}

/// How fast each pair turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Periods<'a> {
    /// `base^(2i / dimensions)` for pair `i`.
    Base(f32),
    /// One a pair, in units of `1 / 2 pi` tokens.
    Each(&'a [f32]),
}

impl Rotation {
    /// * `dimensions`: how many of a head's leading dimensions are rotated; even.
    /// * `traditional`: whether a pair's dimensions are neighbours, else they lie half the rotated
    ///   width apart.
    /// * `position_scale`: factor on positions. `factor`: factor on the rotated heads.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for an odd or negative number of dimensions, or periods that are not one a
    /// pair.
    pub fn new(
        dimensions: i32,
        traditional: bool,
        periods: Periods<'_>,
        position_scale: f32,
        factor: f32,
    ) -> Result<Self, Error> {
        let refuse = |argument, found: usize, expected: String| Error::Value {
            op: super::OP,
            argument,
            found: found.to_string(),
            expected,
        };
        if dimensions < 0 || dimensions % 2 != 0 {
            let found = dimensions.to_string();
            let expected = "even and not negative".to_owned();
            return Err(Error::Value {
                op: super::OP,
                argument: "dimensions",
                found,
                expected,
            });
        }
        let pairs = dimensions / 2;
        let (base, each, exact) = match periods {
            Periods::Base(base) => {
                let (wide, width) = (f64::from(base), f64::from(dimensions));
                let periods = (0..pairs).map(|pair| wide.powf(f64::from(2 * pair) / width));
                (Some(base), None, periods.collect())
            }
            Periods::Each(periods) if periods.len() == pairs as usize => {
                let exact = periods.iter().copied().map(f64::from).collect();
                (None, Some(Array::from_slice(periods, &[pairs])), exact)
            }
            Periods::Each(periods) => {
                let expected = format!("one for each of {pairs} pairs");
                return Err(refuse("number of periods", periods.len(), expected));
            }
        };
        let scale = f64::from(position_scale);
        Ok(Self {
            dimensions,
            traditional,
            base,
            periods: each,
            position_scale,
            factor,
            rotary: Arc::new(Rotary::new(exact, traditional, scale, factor)),
        })
    }

    /// Dimensions of a head that are rotated.
    pub fn dimensions(&self) -> i32 {
        self.dimensions
    }

    /// `x`, `[batch, heads, tokens, head width]`, rotated by MLX's operation; its first token has
    /// position `offset`.
    ///
    /// # Errors
    ///
    /// Those of the operation.
    pub fn apply(&self, x: &Array, offset: i32) -> Result<Array, Error> {
        let rotated = fast::rope(
            x,
            self.dimensions,
            self.traditional,
            self.base,
            self.position_scale,
            offset,
            self.periods.as_ref(),
        )?;
        if self.factor == 1.0 {
            return Ok(rotated);
        }
        let factor = Array::from_f32(self.factor).as_dtype(x.dtype())?;
        Ok(rotated.multiply(factor)?)
    }

    /// The same for the CPU code.
    pub(super) fn rotary(&self) -> Arc<Rotary> {
        Arc::clone(&self.rotary)
    }
}
