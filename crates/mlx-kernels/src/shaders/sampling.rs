//! Greedy choice by log-probability, and the vocabulary mask.

use super::{Shader, SourceFile, source_file};

const UNROLL: SourceFile = source_file!("common/unroll.h");
const CANDIDATE: SourceFile = source_file!("sampling/candidate.h");

/// `logits` `[rows, V]` and `logsumexp` `[rows]` in dtype `T` to the best `scores` (`f32`) and `ids`
/// (`u32`) of each tile of 1024 ids, both `[rows, TILES]`.
pub const NORMALIZED_ARGMAX_TILES: Shader = Shader {
    name: "normalized_argmax_tiles",
    inputs: &["logits", "logsumexp"],
    outputs: &["scores", "ids"],
    template: &["T", "V", "TILES"],
    headers: &[UNROLL, CANDIDATE],
    body: source_file!("sampling/normalized_argmax_tiles.metal"),
};

/// `scores` and `ids` `[rows, TILES]` to the best `tokens` `[rows]`, `u32`.
pub const NORMALIZED_ARGMAX_FINAL: Shader = Shader {
    name: "normalized_argmax_final",
    inputs: &["scores", "ids"],
    outputs: &["tokens"],
    template: &["TILES"],
    headers: &[UNROLL, CANDIDATE],
    body: source_file!("sampling/normalized_argmax_final.metal"),
};

/// `logits` `[rows, V]` in dtype `T` and `bits` `[1 or rows, words]` of `u32` to `masked`, as
/// `logits`.
pub const TOKEN_BITMASK: Shader = Shader {
    name: "token_bitmask",
    inputs: &["logits", "bits"],
    outputs: &["masked"],
    template: &["T", "V"],
    headers: &[],
    body: source_file!("sampling/token_bitmask.metal"),
};
