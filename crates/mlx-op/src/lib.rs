//! Custom operations for MLX from Rust.
