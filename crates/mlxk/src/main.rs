//! Command line of the MLX kernel extension.

fn main() {}
