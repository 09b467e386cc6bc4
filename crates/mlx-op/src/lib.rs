//! Custom operations for MLX from Rust.
//!
//! * [`Kernel`] and [`Launch`]: a Metal kernel, launched through MLX on Metal, on CUDA, or through
//!   a [`Simulator`] on the CPU.
//! * [`HostOp`]: a lazy MLX node whose evaluation runs a Rust closure.
//! * [`Backend`] and [`DeviceProfile`]: what runs here.
//!
//! All `unsafe` calls into MLX that this workspace makes are in this crate.

mod backend;
mod cuda;
mod error;
mod host;
mod kernel;
mod library;
mod metal;
mod profile;
mod simulate;

pub use backend::Backend;
pub use error::{Error, HostError};
pub use host::{Element, HostInput, HostOp, HostOutput, OutputSpec};
pub use kernel::{
    Kernel, KernelDevice, KernelSource, KernelText, Launch, MAX_THREADS_PER_GROUP, TemplateArg,
};
pub use library::{mlx_library, mlx_version};
pub use profile::{DeviceProfile, device_name};
pub use simulate::{SimInput, SimLaunch, Simulator};
