//! Products of several rows with weights in trellis codes.
//!
//! All but the last step of a split take `x` in dtype `T`, `[M, inputs]`, `codes`, `u32`, and `scales`
//! `[R]` in dtype `S`.

use super::{Shader, SourceFile, source_file};

const UNROLL: SourceFile = source_file!("common/unroll.h");
const LOAD: SourceFile = source_file!("common/load.h");
const FRAGMENT: SourceFile = source_file!("common/fragment.h");
const CODEBOOK: SourceFile = source_file!("trellis/codebook.h");
const STREAM: SourceFile = source_file!("trellis/stream.h");
const COLUMNS: SourceFile = source_file!("trellis/columns.h");
const TILE: SourceFile = source_file!("trellis/tile.h");

/// Several rows of x, on the 8x8 matrix unit: tiles of the weight are decoded into threadgroup
/// memory.
pub const TRELLIS_PREFILL_TILED: Shader = Shader {
    name: "trellis_prefill_tiled",
    inputs: &["x", "codes", "scales"],
    outputs: &["y"],
    template: &["T", "S", "R", "C", "TB", "K", "L", "BM"],
    headers: &[UNROLL, FRAGMENT, CODEBOOK, STREAM, COLUMNS, TILE],
    body: source_file!("trellis/prefill_tiled.metal"),
};

/// The same for codes that run along the outputs, in parts of the inputs.
pub const TRELLIS_PREFILL_SPLITK: Shader = Shader {
    name: "trellis_prefill_splitk",
    inputs: &["x", "codes", "scales"],
    outputs: &["partials"],
    template: &[
        "T",
        "S",
        "R",
        "C",
        "TB",
        "K",
        "L",
        "LAYOUT",
        "SPLITS",
        "PARTITION",
    ],
    headers: &[UNROLL, FRAGMENT, CODEBOOK, STREAM, COLUMNS, TILE],
    body: source_file!("trellis/prefill_splitk.metal"),
};

/// The sums of those parts.
pub const TRELLIS_SPLITK_FOLD: Shader = Shader {
    name: "trellis_splitk_fold",
    inputs: &["partials"],
    outputs: &["y"],
    template: &["T", "SPLITS"],
    headers: &[UNROLL],
    body: source_file!("trellis/splitk_fold.metal"),
};

/// Several rows of x on ordinary lanes, which share each decoded row of the weight.
pub const TRELLIS_PREFILL_WIDE: Shader = Shader {
    name: "trellis_prefill_wide",
    inputs: &["x", "codes", "scales"],
    outputs: &["y"],
    template: &["T", "S", "R", "C", "TB", "K", "L", "M", "LANES"],
    headers: &[UNROLL, LOAD, CODEBOOK, STREAM, COLUMNS],
    body: source_file!("trellis/prefill_wide.metal"),
};
