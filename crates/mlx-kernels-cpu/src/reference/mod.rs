//! The kernels' definitions in plain `f64`: slow, short, and what the tests compare with.

pub mod affine;
