//! Why a threadgroup could not finish, before it is put into the kernel's terms.

use std::io;

use crate::Place;

pub enum Fault {
    Divergence {
        first: Box<Place>,
        second: Box<Place>,
    },
    Missing {
        waiting: Box<Place>,
        missing: u32,
    },
    ThreadgroupMemory {
        place: Box<Place>,
        wanted: usize,
    },
    Overrun(Overrun),
    Stack(io::Error),
}

/// A write past the end of a threadgroup variable.
#[derive(Debug, PartialEq, Eq)]
pub struct Overrun {
    /// Which variable, in order of declaration.
    pub slot: usize,
    /// Offset of the first byte found written, from the variable's start.
    pub byte: usize,
    /// Size of the variable.
    pub bytes: usize,
}
