//! What can go wrong between a caller and MLX.

use mlx_rs::Dtype;
use thiserror::Error;

use crate::Backend;

/// A custom operation that could not be built or added to a graph.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// MLX refused.
    #[error(transparent)]
    Mlx(#[from] mlx_rs::error::Exception),

    /// MLX refused a host operation's node.
    #[error("[{name}] MLX refused the node: {reason}")]
    Node {
        /// The operation.
        name: String,
        /// MLX's message.
        reason: String,
    },

    /// A name that is not a C identifier, or holds a NUL.
    #[error(
        "{name:?} is not an identifier: letters, digits and underscores, not starting with a digit"
    )]
    Name {
        /// The name.
        name: String,
    },

    /// The same name for two of a kernel's inputs, outputs and template parameters.
    #[error("[{kernel}] {name:?} names both {first} and {second}")]
    DuplicateName {
        /// The kernel.
        kernel: String,
        /// The name.
        name: String,
        /// What it names first.
        first: &'static str,
        /// What it names as well.
        second: &'static str,
    },

    /// An operation without outputs.
    #[error("[{name}] needs at least one output")]
    NoOutputs {
        /// The operation.
        name: String,
    },

    /// An output with a negative dimension.
    #[error("[{name}] output {index} has shape {shape:?}: dimensions must not be negative")]
    NegativeShape {
        /// The operation.
        name: String,
        /// Which output.
        index: usize,
        /// Its shape.
        shape: Vec<i32>,
    },

    /// As many inputs or outputs as names are expected.
    #[error("[{kernel}] got {found} {what}, expected {expected}")]
    Count {
        /// The kernel.
        kernel: String,
        /// "inputs" or "outputs".
        what: &'static str,
        /// How many names the kernel has.
        expected: usize,
        /// How many were passed.
        found: usize,
    },

    /// A grid or threadgroup with a dimension that is not positive.
    #[error("[{kernel}] {what} {found:?}: every dimension must be at least 1")]
    NotPositive {
        /// The kernel.
        kernel: String,
        /// "grid" or "threadgroup".
        what: &'static str,
        /// What was passed.
        found: [i32; 3],
    },

    /// A threadgroup larger than every back end's limit.
    #[error(
        "[{kernel}] a threadgroup of {found:?} has {threads} threads: at most {limit} are possible"
    )]
    ThreadgroupSize {
        /// The kernel.
        kernel: String,
        /// What was passed.
        found: [i32; 3],
        /// Its product.
        threads: i64,
        /// The limit.
        limit: i64,
    },

    /// A negative template integer, which MLX cannot put into a kernel's name.
    #[error("[{kernel}] template parameter {name} is {found}: it must not be negative")]
    NegativeTemplate {
        /// The kernel.
        kernel: String,
        /// The parameter.
        name: String,
        /// Its value.
        found: i32,
    },

    /// Kernel text that is not ASCII, which MLX hands to the compiler under an ASCII encoding.
    #[error("[{kernel}] the {what} holds {found:?}: kernel text must be ASCII")]
    NotAscii {
        /// The kernel.
        kernel: String,
        /// "body" or "header".
        what: &'static str,
        /// The first other character.
        found: char,
    },

    /// A back end that this machine lacks, or that this kernel has no text for.
    #[error("back end {backend} is not available here: {reason}")]
    Unavailable {
        /// The back end.
        backend: Backend,
        /// Why.
        reason: String,
    },

    /// An unknown back-end name.
    #[error("unknown back end {found:?}: expected metal, cuda, cpu or sim")]
    UnknownBackend {
        /// The name.
        found: String,
    },
}

/// A failure inside a running host operation; it becomes the error of the `eval` that needed it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HostError {
    /// A slice of another type than the array's was asked for.
    #[error("expected an array of {expected:?}, found {found:?}")]
    Dtype {
        /// The type asked for.
        expected: Dtype,
        /// The array's.
        found: Dtype,
    },

    /// The operation's own failure.
    #[error("{0}")]
    Failed(String),

    /// The closure panicked.
    #[error("a host operation panicked: {0}")]
    Panic(String),
}

impl HostError {
    /// The operation's own failure, from its error.
    pub fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}
