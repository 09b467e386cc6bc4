//! Kernels for NVIDIA GPUs alone, where a body that suits Apple's GPUs is far from the memory's pace.
//!
//! They are alternatives to kernels of [`ALL`](super::ALL) for the same operations, and are held to the
//! same references.

use super::{SourceFile, Text, source_file};

/// A kernel in CUDA C++: its names, in the order of its launches, and its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaShader {
    /// The kernel's name; MLX adds the template arguments to it.
    pub name: &'static str,
    /// Input names.
    pub inputs: &'static [&'static str],
    /// Output names.
    pub outputs: &'static [&'static str],
    /// Helper functions, in the order in which they build on each other.
    pub headers: &'static [SourceFile],
    /// The function body; its first comment says what the template parameters and the grid are.
    pub body: SourceFile,
}

impl CudaShader {
    /// The text for MLX's CUDA kernels. The helpers go where MLX opens the kernel.
    #[must_use]
    pub fn text(&self) -> Text {
        let headers: String = self.headers.iter().map(|file| file.text).collect();
        Text {
            header: format!("namespace mlx::core::cu {{\n{headers}}}\n"),
            body: self.body.text.to_owned(),
        }
    }
}

/// 1 to 8 rows on tensor cores: `x` `[M, K]` and `y` `[M, N]` in half or bfloat16, `w` `[N, K BITS / 32]` of
/// `u32`, `scales` and `biases` `[N, K / GROUP]`.
pub const AFFINE_TENSOR: CudaShader = CudaShader {
    name: "affine_tensor",
    inputs: &["x", "w", "scales", "biases"],
    outputs: &["y"],
    headers: &[
        source_file!("cuda/fragment.cuh"),
        source_file!("cuda/codes.cuh"),
    ],
    body: source_file!("cuda/affine_tensor.cu"),
};
