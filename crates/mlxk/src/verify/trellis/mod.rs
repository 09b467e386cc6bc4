//! Weights in trellis codes: their expansion and their products.

mod coded;
mod declared;
pub mod gateup;
mod product;
mod route;
mod rows;
mod scatter;

use std::fmt;

use mlx_rs::Dtype;
use trellis_codec::Axis;

pub use declared::{declared, declared_pairs};
pub use route::Route;
pub use scatter::Scatter;

use super::floats::name;
use super::{Failure, Findings, Kernel};
use coded::Coded;

/// Extents, code and element types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows of x.
    pub rows: i32,
    /// Output features.
    pub outputs: i32,
    /// Input features.
    pub inputs: i32,
    /// Bits a weight.
    pub bits: u32,
    /// State bits.
    pub state_bits: u32,
    /// Weights a block.
    pub block: usize,
    /// What the code runs along.
    pub axis: Axis,
    /// Whether blocks lie in pairs.
    pub interleaved: bool,
    /// Element type of x and of the result.
    pub dtype: Dtype,
    /// Element type of the scales.
    pub scale_dtype: Dtype,
}

/// One check of one kernel at one shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// The kernel, and how it is told to work.
    pub route: Route,
    /// Extents, code and element types.
    pub shape: Shape,
    /// What is checked.
    pub check: Check,
}

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Check {
    /// Every weight is the host decoder's, bit for bit.
    Matrix,
    /// Every element lies within its error bound, at each of these numbers of rows.
    Bounds(&'static [i32]),
    /// A single 1 in x picks out a column of weights, exactly.
    OneHot,
    /// The bits are those of this other kernel.
    Equals(Route),
    /// A row's bits do not depend on how many rows stand beside it.
    Company(&'static [i32]),
    /// A row's bits do not depend on NaN and infinities in the other rows.
    Neighbours,
}

impl Case {
    /// The kernel that is checked.
    pub fn kernel(&self) -> Kernel {
        self.route.kernel()
    }

    /// Runs the check; operations must run under the context.
    pub(super) fn run(&self) -> Result<Findings, Failure> {
        match self.check {
            Check::Matrix => product::matrix(self.route, &self.shape),
            Check::Bounds(counts) => product::bounds(self.route, self.shape, counts),
            Check::OneHot => product::one_hot(self.route, &self.shape),
            Check::Equals(other) => product::equals(self.route, other, &self.shape),
            Check::Company(counts) => {
                let coded = Coded::random(&self.shape, 0)?;
                rows::company(self.shape, counts, &|x, shape| {
                    product::multiply(self.route, &coded, x, shape)
                })
            }
            Check::Neighbours => {
                let coded = Coded::random(&self.shape, 0)?;
                rows::neighbours(&self.shape, &|x, shape| {
                    product::multiply(self.route, &coded, x, shape)
                })
            }
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape {
            rows,
            outputs,
            inputs,
            bits,
            state_bits,
            block,
            axis,
            interleaved,
            dtype,
            scale_dtype,
        } = self.shape;
        let (x, s, axis) = (name(dtype), name(scale_dtype), axis.index());
        let pairs = if interleaved { " in pairs" } else { "" };
        write!(
            f,
            "{:?} {:?}: {bits} bits, {state_bits} state bits, blocks of {block}{pairs}, axis {axis}, \
             {rows} x {inputs} by {outputs}, {x} x, {s} scales",
            self.route, self.check
        )
    }
}
