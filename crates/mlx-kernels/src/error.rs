//! What a caller can get wrong.

use mlx_rs::Dtype;
use thiserror::Error;

/// Why an operation refused its arguments or could not be added to the graph.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument with another shape than the others call for.
    #[error("[{op}] {argument} has shape {found:?}; expected {expected}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The argument.
        argument: &'static str,
        /// Its shape.
        found: Vec<i32>,
        /// What it must be.
        expected: String,
    },

    /// An argument with an element type that the operation does not take.
    #[error("[{op}] {argument} has dtype {found:?}; expected {expected}")]
    Dtype {
        /// The operation.
        op: &'static str,
        /// The argument.
        argument: &'static str,
        /// Its element type.
        found: Dtype,
        /// What it must be.
        expected: String,
    },

    /// A number outside the range that it may have.
    #[error("[{op}] {argument} is {found}; expected {expected}")]
    Value {
        /// The operation.
        op: &'static str,
        /// The argument.
        argument: &'static str,
        /// Its value.
        found: String,
        /// What it must be.
        expected: String,
    },

    /// A trellis weight's arrays and its configuration entry do not go together.
    #[error("[trellis_matmul] {0}")]
    Trellis(#[from] trellis_codec::Error),

    /// MLX refused.
    #[error(transparent)]
    Mlx(#[from] mlx_rs::error::Exception),

    /// The kernel could not be built or launched.
    #[error(transparent)]
    Op(#[from] mlx_op::Error),
}

impl From<Error> for mlx_rs::error::Exception {
    #[track_caller]
    fn from(error: Error) -> Self {
        match error {
            Error::Mlx(exception) => exception,
            error => Self::custom(error.to_string()),
        }
    }
}
