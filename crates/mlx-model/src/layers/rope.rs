//! Rotary position embedding of a model.

use mlx_kernels::attention::{Periods, Rotation};

use crate::config::RopeConfig;
use crate::error::Result;

/// What rotates queries and keys under `config`.
pub(crate) fn rotation(config: &RopeConfig) -> Result<Rotation> {
    let periods = config.periods();
    Ok(Rotation::new(
        config.dimensions,
        config.traditional,
        periods
            .as_deref()
            .map_or(Periods::Base(config.base), Periods::Each),
        config.position_scale(),
        config.attention_factor(),
    )?)
}
