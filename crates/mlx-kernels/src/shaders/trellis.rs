//! Products with weights in trellis codes, and the expansion of such weights.
//!
//! All take `codes`, `u32`, and `scales` `[R]` in dtype `S`; those that multiply take `x` in dtype
//! `T`, `[M, C]` where the code runs along the inputs and `[M, R]` where it runs along the outputs.

use super::{Shader, SourceFile, source_file};

const UNROLL: SourceFile = source_file!("common/unroll.h");
const LOAD: SourceFile = source_file!("common/load.h");
const FRAGMENT: SourceFile = source_file!("common/fragment.h");
const CODEBOOK: SourceFile = source_file!("trellis/codebook.h");
const STREAM: SourceFile = source_file!("trellis/stream.h");
const DECODE: SourceFile = source_file!("trellis/decode.h");
const RUNS: SourceFile = source_file!("trellis/runs.h");
const SWIGLU: SourceFile = source_file!("trellis/swiglu.h");
const REDUCE: SourceFile = source_file!("trellis/reduce.h");
const GATEUP: SourceFile = source_file!("trellis/gateup.h");
const PRODUCTS: SourceFile = source_file!("trellis/products.h");
const DOWN: SourceFile = source_file!("trellis/down.h");
const COLUMNS: SourceFile = source_file!("trellis/columns.h");
const POSITIONS: SourceFile = source_file!("trellis/positions.h");

/// The stored matrix, one thread an element.
pub const TRELLIS_EXPAND: Shader = Shader {
    name: "trellis_expand",
    inputs: &["codes", "scales", "table"],
    outputs: &["out"],
    template: &["T", "S", "R", "C", "TB", "K", "L", "DECODE", "LAYOUT"],
    headers: &[UNROLL, CODEBOOK, STREAM],
    body: source_file!("trellis/expand.metal"),
};

/// The stored matrix in bfloat16, one thread for four elements.
pub const TRELLIS_EXPAND4: Shader = Shader {
    name: "trellis_expand4",
    inputs: &["codes", "scales"],
    outputs: &["out"],
    template: &["S", "R", "C", "TB", "K", "L", "LAYOUT", "TILE"],
    headers: &[UNROLL, CODEBOOK, STREAM],
    body: source_file!("trellis/expand4.metal"),
};

/// 1 to 4 rows on ordinary lanes, the code running along the inputs.
pub const TRELLIS_REDUCE: Shader = Shader {
    name: "trellis_reduce",
    inputs: &["x", "codes", "scales", "table"],
    outputs: &["y"],
    template: &["T", "S", "R", "C", "TB", "K", "L", "SGS", "DECODE", "ROWS"],
    headers: &[
        UNROLL, LOAD, CODEBOOK, STREAM, DECODE, RUNS, PRODUCTS, REDUCE,
    ],
    body: source_file!("trellis/reduce.metal"),
};

/// 1 to 4 rows on ordinary lanes, the code running along the outputs.
pub const TRELLIS_SCATTER: Shader = Shader {
    name: "trellis_scatter",
    inputs: &["x", "codes", "scales", "table"],
    outputs: &["partials"],
    template: &[
        "T", "S", "R", "C", "TB", "K", "L", "SGS", "SPLITS", "DECODE", "ROWS", "LAYOUT", "PER",
    ],
    headers: &[UNROLL, CODEBOOK, STREAM, DECODE, COLUMNS, POSITIONS],
    body: source_file!("trellis/scatter.metal"),
};

/// Codes along the outputs, up to 8 rows on the matrix unit.
pub const TRELLIS_DOWN_MMA: Shader = Shader {
    name: "trellis_down_mma",
    inputs: &["x", "codes", "scales"],
    outputs: &["partials"],
    template: &[
        "T", "S", "M", "R", "C", "K", "L", "SPLITS", "SG_TG", "LAYOUT", "ST",
    ],
    headers: &[UNROLL, FRAGMENT, CODEBOOK, STREAM, DOWN],
    body: source_file!("trellis/down_mma.metal"),
};

/// The same for any number of rows.
pub const TRELLIS_DOWN_MMA_WIDE: Shader = Shader {
    name: "trellis_down_mma_wide",
    inputs: &["x", "codes", "scales"],
    outputs: &["partials"],
    template: &[
        "T", "S", "R", "C", "K", "L", "SPLITS", "SG_TG", "LAYOUT", "ST", "MT",
    ],
    headers: &[UNROLL, FRAGMENT, CODEBOOK, STREAM, DOWN],
    body: source_file!("trellis/down_mma_wide.metal"),
};

/// `silu(gate) * up` for 1 to 4 rows on ordinary lanes, both codes running along the inputs.
///
/// Takes `gate_codes`, `gate_scales`, `up_codes` and `up_scales` in the place of one matrix's.
pub const TRELLIS_GATEUP: Shader = Shader {
    name: "trellis_gateup",
    inputs: &[
        "x",
        "gate_codes",
        "gate_scales",
        "up_codes",
        "up_scales",
        "table",
    ],
    outputs: &["y"],
    template: &[
        "T", "S", "R", "C", "TB", "KG", "KU", "L", "SGS", "DECODE", "ROWS", "CHAINS", "TAIL",
    ],
    headers: &[
        UNROLL, LOAD, CODEBOOK, STREAM, DECODE, RUNS, PRODUCTS, GATEUP, SWIGLU,
    ],
    body: source_file!("trellis/gateup.metal"),
};

/// The same for any number of rows on the matrix unit.
pub const TRELLIS_GATEUP_MMA: Shader = Shader {
    name: "trellis_gateup_mma",
    inputs: &["x", "gate_codes", "gate_scales", "up_codes", "up_scales"],
    outputs: &["y"],
    template: &["T", "S", "R", "C", "TB", "KG", "KU", "L", "SG_TG", "MT"],
    headers: &[UNROLL, LOAD, FRAGMENT, CODEBOOK, STREAM, RUNS, SWIGLU],
    body: source_file!("trellis/gateup_mma.metal"),
};
