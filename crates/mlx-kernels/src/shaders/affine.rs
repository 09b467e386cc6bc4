//! Quantized matmuls: y = x W^T for affine weights.
//!
//! All take `x` `[M, K]` in dtype `T`, `w` `[N, K BITS / 32]` of `u32`, and `scales` and `biases`
//! `[N, K / GROUP]` in dtype `S`; `y` is `[M, N]` in `T`.

use super::{Shader, SourceFile, source_file};

const INPUTS: &[&str] = &["x", "w", "scales", "biases"];
const OUTPUTS: &[&str] = &["y"];

const UNROLL: SourceFile = source_file!("common/unroll.h");
const LOAD: SourceFile = source_file!("common/load.h");
const FRAGMENT: SourceFile = source_file!("common/fragment.h");
const CODES: SourceFile = source_file!("affine/codes.h");
const COLUMNS: SourceFile = source_file!("affine/columns.h");

/// 2 to 8 rows on ordinary lanes: each weight is decoded once for all rows.
pub const AFFINE_ROWS: Shader = Shader {
    name: "affine_rows",
    inputs: INPUTS,
    outputs: OUTPUTS,
    template: &["T", "S", "M", "N", "K", "BITS", "GROUP", "NR", "SGS", "VPT"],
    headers: &[UNROLL, LOAD, CODES],
    body: source_file!("affine/rows.metal"),
};

/// Up to 8 rows on the 8x8 matrix unit, one simdgroup for 8 outputs.
pub const AFFINE_MMA: Shader = Shader {
    name: "affine_mma",
    inputs: INPUTS,
    outputs: OUTPUTS,
    template: &["T", "S", "M", "N", "K", "BITS", "GROUP", "SG_TG", "MT"],
    headers: &[UNROLL, LOAD, FRAGMENT, CODES, COLUMNS],
    body: source_file!("affine/mma.metal"),
};

/// Any number of rows on the 8x8 matrix unit, K split over the simdgroups of a threadgroup.
pub const AFFINE_SPLIT_MMA: Shader = Shader {
    name: "affine_split_mma",
    inputs: INPUTS,
    outputs: OUTPUTS,
    template: &["T", "S", "N", "K", "BITS", "GROUP", "TILES", "SPLITS"],
    headers: &[UNROLL, LOAD, FRAGMENT, CODES, COLUMNS],
    body: source_file!("affine/split_mma.metal"),
};
