//! Quantized-matmul, norm and sampling operations that extend MLX.

pub mod shaders;
