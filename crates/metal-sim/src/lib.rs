//! Runs Metal compute kernel bodies on the CPU, lane by lane.

mod abi;
mod buffers;
mod compile;
mod config;
mod declarations;
mod dtype;
mod error;
mod geometry;
mod kernel;
mod lexer;
mod order;
mod signature;
mod sim;
mod source;
mod stack;
mod worker;

pub use config::{Config, Order};
pub use dtype::{DType, Element};
pub use error::{Place, SimError};
pub use kernel::{Input, KernelSource, Launch, MAX_BUFFERS, MAX_THREADS, OutputSpec, TemplateArg};
pub use sim::{OutputBuf, Simulator};
