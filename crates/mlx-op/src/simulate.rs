//! The seam between a kernel and whatever runs Metal bodies on the CPU.

use mlx_rs::Dtype;

use crate::{KernelText, OutputSpec, TemplateArg};

/// One input of a simulated launch, row-contiguous.
#[derive(Debug, Clone, Copy)]
pub struct SimInput<'a> {
    /// Dimensions.
    pub shape: &'a [i32],
    /// Element type.
    pub dtype: Dtype,
    /// Elements in row-major order.
    pub bytes: &'a [u8],
}

/// One launch of a Metal kernel body on the CPU.
#[derive(Debug)]
pub struct SimLaunch<'a> {
    /// The kernel's name.
    pub name: &'a str,
    /// Input names, in order.
    pub input_names: &'a [String],
    /// Output names, in order.
    pub output_names: &'a [String],
    /// Metal body and header.
    pub text: &'a KernelText,
    /// Inputs, one for each name.
    pub inputs: &'a [SimInput<'a>],
    /// Outputs, one for each name.
    pub outputs: &'a [OutputSpec],
    /// Template arguments, in order.
    pub template: &'a [(String, TemplateArg)],
    /// Threads along each axis.
    pub grid: [i32; 3],
    /// Threads of a group along each axis.
    pub threadgroup: [i32; 3],
    /// What outputs hold before the launch; without it every element must be written.
    pub init_value: Option<f32>,
}

/// Runs Metal kernel bodies on the CPU.
pub trait Simulator: Send + Sync {
    /// Runs `launch` and fills `outputs`, the bytes of each output in row-major order.
    ///
    /// # Errors
    ///
    /// A message that says what failed: a body that does not compile, a divergent barrier, an
    /// element never written.
    fn run(&self, launch: &SimLaunch<'_>, outputs: &mut [&mut [u8]]) -> Result<(), String>;
}
