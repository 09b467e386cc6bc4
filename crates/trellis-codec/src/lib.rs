//! The bit-shift trellis weight format: geometry, packing, decoding and encoding.
//!
//! A weight is the value of a state of a tail-biting walk that shifts `k` bits in per weight (QTIP, Tseng et al. 2024,
//! with the computed code "1MAD"); a block of `T` weights costs `T * k` bits, and every stored row has one f16 scale.
//! This crate has no dependency on MLX: it is the referee of the kernels and the producer of their input.
//!
//! - [`Format`], [`Geometry`], [`ModuleEntry`]: what a coded module is, and whether its arrays and its configuration
//!   entry agree.
//! - [`packing`], [`interleave()`], [`codebook`], [`decode()`]: from words to weights.
//! - [`Encoder`]: from weights to words; [`Hessian`]: what it needs to do so with error feedback.
//! - [`TrellisModule`]: the same as safetensors tensors.

pub mod codebook;
mod config;
mod decode;
mod encode;
mod error;
mod feedback;
mod format;
mod geometry;
mod interleave;
mod module;
pub mod packing;

pub use config::{Axis, CODE, Layout, MODE, ModuleEntry, TrellisEntry};
pub use decode::{Contract, decode, decode_states, factored_scales, round_to_bf16};
pub use encode::{Distortion, Encoded, Encoder, ScaleSearch, SimdLevel};
pub use error::{Error, Result};
pub use feedback::{FeedbackEncoded, FeedbackLimits, Hessian, HessianFactor};
pub use format::{DEFAULT_BLOCK, DEFAULT_STATE_BITS, Format, MAX_BITS, MAX_STATE_BITS};
pub use geometry::Geometry;
pub use interleave::{deinterleave, interleave};
pub use module::{ModuleTensor, TrellisModule};

/// FNV-1a of 32 bits, for tests against published digests.
#[cfg(test)]
pub(crate) fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0x811C_9DC5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
