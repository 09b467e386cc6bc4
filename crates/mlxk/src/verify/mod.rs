//! Runs kernels over declared cases and compares them with float64 references and with the
//! equalities that they promise.
//!
//! [`declared`] lists the cases of a back end, [`run`] runs them, and a [`Report`] sums them up.
//! What is run is whatever the [`Context`] makes of the operations: a simulator of the caller's
//! own, for one, may run other text than the kernels', to see that verification notices.
//!
//! A family of kernels is a module with its `Case`: it knows its reference, its bounds and its
//! contracts. Which cases there are is data, in `declared.rs`.

pub mod affine;
pub mod argmax;
pub mod bitmask;
mod declared;
mod floats;
mod kernel;
pub mod norm;
mod outcome;
mod random;
mod report;
mod runner;
pub mod trellis;

use std::fmt;

use mlx_kernels::Context;
use mlx_rs::Dtype;

pub use declared::{Effort, declared};
pub use floats::name as dtype_name;
pub use kernel::Kernel;
pub use outcome::{Failure, Findings, Outcome};
pub use report::{Line, Report};
pub use runner::{run, simulator_config};

use outcome::{same_bits, within_bounds};

/// One check of one kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Case {
    /// A product with affine-quantized weights.
    Affine(affine::Case),
    /// Residual addition with RMS norm.
    Norm(norm::Case),
    /// The greedy token.
    Argmax(argmax::Case),
    /// The vocabulary mask.
    Bitmask(bitmask::Case),
    /// A weight in trellis codes: its expansion, or a product with it.
    Trellis(trellis::Case),
    /// Gate and up: two weights in trellis codes over one x.
    TrellisGateup(trellis::gateup::Case),
}

impl Case {
    /// The kernel that is checked.
    pub fn kernel(&self) -> Kernel {
        match self {
            Self::Affine(case) => case.kernel(),
            Self::Norm(_) => Kernel::AddRmsNorm,
            Self::Argmax(_) => Kernel::NormalizedArgmax,
            Self::Bitmask(_) => Kernel::TokenBitmask,
            Self::Trellis(case) => case.kernel(),
            Self::TrellisGateup(case) => case.kernel(),
        }
    }

    /// The type of its results, for tokens that of the logits.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::Affine(case) => case.dtype(),
            Self::Norm(case) => case.dtype,
            Self::Argmax(case) => case.dtype,
            Self::Bitmask(case) => case.dtype,
            Self::Trellis(case) => case.shape.dtype,
            Self::TrellisGateup(case) => case.shape.dtype,
        }
    }

    fn check(&self, context: &Context) -> Result<Findings, Failure> {
        match self {
            Self::Affine(case) => case.run(context),
            Self::Norm(case) => case.run(),
            Self::Argmax(case) => case.run(),
            Self::Bitmask(case) => case.run(),
            Self::Trellis(case) => case.run(),
            Self::TrellisGateup(case) => case.run(context),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kernel())?;
        match self {
            Self::Affine(case) => case.fmt(f),
            Self::Norm(case) => case.fmt(f),
            Self::Argmax(case) => case.fmt(f),
            Self::Bitmask(case) => case.fmt(f),
            Self::Trellis(case) => case.fmt(f),
            Self::TrellisGateup(case) => case.fmt(f),
        }
    }
}
