//! Residual addition and RMS norm in one pass.

use super::{Shader, source_file};

/// `x`, `update` `[rows, D]` and `weight` `[D]` to `residual` and `normalized` `[rows, D]`, all in
/// dtype `T`.
pub const ADD_RMS_NORM: Shader = Shader {
    name: "add_rms_norm",
    inputs: &["x", "update", "weight"],
    outputs: &["residual", "normalized"],
    template: &["T", "D", "THREADS", "EPS"],
    headers: &[],
    body: source_file!("norm/add_rms_norm.metal"),
};
