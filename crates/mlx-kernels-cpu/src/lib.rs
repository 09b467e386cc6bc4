//! Quantized-matmul, norm and sampling kernels for the CPU, over plain slices.
//!
//! Nothing here knows of MLX: inputs and outputs are slices, row-major and without gaps, and the
//! formats are MLX's. Products accumulate in `f32` whatever the element types, and a row's result
//! has the same bits however many rows stand beside it and however many threads share the work.
//!
//! * [`affine`]: `x * W^T` for weights in MLX's affine quantization.
//! * [`trellis`]: the same for weights in trellis codes.
//! * [`attention`]: rotary embedding and causal attention over a cache.
//! * [`gate`]: the gate of a gated MLP.
//! * [`norm`]: residual addition with RMS norm.
//! * [`sampling`]: greedy token choice and vocabulary masks.
//! * [`memory`]: where weights lie.
//! * [`mod@reference`]: the same in plain `f64`, for tests.
//!
//! An [`Execution`] says which instructions to use and how many threads; the default is the best
//! that the machine has.

#![allow(
    clippy::inline_always,
    reason = "code over a set of instructions must end up in the function that enables them"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "register tiles are indexed by row and column, with extents known at compile time"
)]

pub mod affine;
mod aligned;
pub mod attention;
pub mod dense;
mod error;
mod execution;
mod exp;
mod float;
pub mod gate;
pub mod memory;
pub mod norm;
pub mod reference;
pub mod sampling;
mod simd;
mod threads;
pub mod trellis;

pub use error::Error;
pub use execution::Execution;
pub use float::{FloatType, Floats, FloatsMut};
pub use simd::Level;
