//! The parts of a decoder block.

mod attention;
mod block;
mod linear;
mod mlp;
mod rope;

pub(crate) use block::{Block, Residual};
pub(crate) use linear::{Embedding, Linear};
pub(crate) use rope::rotation;

use crate::kernels::Kernels;
use crate::statistics::InputStatistics;
use crate::usage::Usage;

/// What a forward pass runs under.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// Kernels to use.
    pub kernels: &'a dyn Kernels,
    /// Where to note the kernels used; noting costs a little at every layer.
    pub usage: Option<&'a Usage>,
    /// Where to add up what enters the layers; every input is evaluated and copied for it.
    pub statistics: Option<&'a InputStatistics>,
}

impl<'a> Pass<'a> {
    /// A pass that notes nothing.
    #[must_use]
    pub fn new(kernels: &'a dyn Kernels) -> Self {
        Self {
            kernels,
            usage: None,
            statistics: None,
        }
    }
}
