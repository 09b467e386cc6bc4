//! Quantized-matmul, norm and sampling operations that extend MLX.
//!
//! [`ops`] has the arguments and results of `mlx_rs::ops`: swap the import, and each call takes the
//! best kernel for its device and shape, or MLX's own operation where none fits. [`Context`] says
//! what that is decided for, and [`affine::plan`] what is decided.
//!
//! [`trellis::matmul`] multiplies by weights in trellis codes, which MLX itself does not have.
//!
//! [`shaders`] holds the Metal bodies in `kernels/`, which also run on CUDA and in a simulator.

pub mod affine;
pub mod attention;
mod context;
mod error;
pub mod gate;
mod host;
mod kernels;
pub mod norm;
pub mod ops;
mod options;
pub mod sampling;
pub mod shaders;
pub mod simulator;
pub mod trellis;

pub use context::{Context, with_context};
pub use error::Error;
pub use mlx_op::{Backend, DeviceProfile};
pub use options::PlanOptions;
