//! Rotary position embedding through MLX's fused operation.

use mlx_rs::{Array, fast};

use crate::config::RopeConfig;
use crate::error::Result;

/// Rotates the leading dimensions of each head by an angle that grows with the position.
#[derive(Clone)]
pub(crate) struct Rope {
    dimensions: i32,
    traditional: bool,
    /// `None` where `periods` holds what the base would give.
    base: Option<f32>,
    periods: Option<Array>,
    position_scale: f32,
    attention_factor: f32,
}

impl Rope {
    pub(crate) fn new(config: &RopeConfig) -> Self {
        let periods = config
            .periods()
            .map(|periods| Array::from_slice(&periods, &[periods.len() as i32]));
        Self {
            dimensions: config.dimensions,
            traditional: config.traditional,
            base: periods.is_none().then_some(config.base),
            periods,
            position_scale: config.position_scale(),
            attention_factor: config.attention_factor(),
        }
    }

    /// `x` is `[batch, heads, tokens, head width]`; its first token has position `offset`.
    pub(crate) fn forward(&self, x: &Array, offset: usize) -> Result<Array> {
        let rotated = fast::rope(
            x,
            self.dimensions,
            self.traditional,
            self.base,
            self.position_scale,
            offset as i32,
            self.periods.as_ref(),
        )?;
        if self.attention_factor == 1.0 {
            return Ok(rotated);
        }
        let factor = Array::from_f32(self.attention_factor).as_dtype(x.dtype())?;
        Ok(rotated.multiply(factor)?)
    }
}
