//! Shader sources by kernel: the texts and names that MLX's custom kernels take.
//!
//! Each body in `kernels/` is Metal. The simulator runs it as it is; for CUDA [`Shader::cuda`] puts
//! Metal's vocabulary before it and rewrites what no macro can. `kernels/registry.json` lists the
//! same kernels with the template values that plans produce, for the lint; a test keeps the two
//! lists equal.

mod affine;
mod cuda;
mod dialect;
mod norm;
mod sampling;
mod trellis;
mod trellis_prefill;

pub use affine::{AFFINE_MMA, AFFINE_ROWS, AFFINE_SPLIT_MMA};
pub use cuda::{AFFINE_TENSOR, CudaShader};
pub use norm::ADD_RMS_NORM;
pub use sampling::{NORMALIZED_ARGMAX_FINAL, NORMALIZED_ARGMAX_TILES, TOKEN_BITMASK};
pub use trellis::{
    TRELLIS_DOWN_MMA, TRELLIS_DOWN_MMA_WIDE, TRELLIS_EXPAND, TRELLIS_EXPAND4, TRELLIS_GATEUP,
    TRELLIS_GATEUP_MMA, TRELLIS_REDUCE, TRELLIS_SCATTER,
};
pub use trellis_prefill::{
    TRELLIS_PREFILL_SPLITK, TRELLIS_PREFILL_TILED, TRELLIS_PREFILL_WIDE, TRELLIS_SPLITK_FOLD,
};

/// A file below `kernels/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path below `kernels/`.
    pub path: &'static str,
    /// What is in it.
    pub text: &'static str,
}

/// The text of a [`SourceFile`], taken in at compile time.
macro_rules! source_file {
    ($path:literal) => {
        $crate::shaders::SourceFile {
            path: $path,
            text: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../kernels/",
                $path
            )),
        }
    };
}
pub(crate) use source_file;

/// A kernel's text for one compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// What stands before the generated function.
    pub header: String,
    /// The function's body.
    pub body: String,
}

/// A kernel: its names, in the order of its launches, and its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shader {
    /// The kernel's name; MLX adds the template arguments to it.
    pub name: &'static str,
    /// Input names.
    pub inputs: &'static [&'static str],
    /// Output names.
    pub outputs: &'static [&'static str],
    /// Names of the template parameters. `T` and `S` are dtypes, all others integers.
    pub template: &'static [&'static str],
    /// Helper functions, in the order in which they build on each other.
    pub headers: &'static [SourceFile],
    /// The function body; its first comment says what the template parameters and the grid are.
    pub body: SourceFile,
}

/// Every kernel.
pub const ALL: &[Shader] = &[
    AFFINE_ROWS,
    AFFINE_MMA,
    AFFINE_SPLIT_MMA,
    ADD_RMS_NORM,
    NORMALIZED_ARGMAX_TILES,
    NORMALIZED_ARGMAX_FINAL,
    TOKEN_BITMASK,
    TRELLIS_EXPAND,
    TRELLIS_EXPAND4,
    TRELLIS_REDUCE,
    TRELLIS_SCATTER,
    TRELLIS_DOWN_MMA,
    TRELLIS_DOWN_MMA_WIDE,
    TRELLIS_PREFILL_TILED,
    TRELLIS_PREFILL_SPLITK,
    TRELLIS_SPLITK_FOLD,
    TRELLIS_PREFILL_WIDE,
    TRELLIS_GATEUP,
    TRELLIS_GATEUP_MMA,
];

impl Shader {
    /// The text for Metal, which is also what the simulator runs.
    #[must_use]
    pub fn metal(&self) -> Text {
        Text {
            header: self.header_text(),
            body: self.body.text.to_owned(),
        }
    }

    /// The text for MLX's CUDA kernels.
    #[must_use]
    pub fn cuda(&self) -> Text {
        Text {
            header: dialect::cuda_header(&self.header_text()),
            body: dialect::cuda_body(self.body.text),
        }
    }

    fn header_text(&self) -> String {
        self.headers.iter().map(|file| file.text).collect()
    }
}

#[cfg(test)]
mod tests;
