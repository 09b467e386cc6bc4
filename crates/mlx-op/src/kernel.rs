//! Kernels written in Metal, and how they are launched on each back end.

use std::collections::HashMap;
use std::sync::Arc;

use mlx_rs::{Array, Dtype};
use once_cell::sync::OnceCell;

use crate::Backend;
use crate::cuda::CudaKernel;
use crate::error::{Error, HostError};
use crate::host::{HostOp, HostOutput, OutputSpec, check_outputs};
use crate::metal::MetalKernel;
use crate::simulate::{SimInput, SimLaunch, Simulator};

/// The most threads that a group may have on any back end.
pub const MAX_THREADS_PER_GROUP: i64 = 1024;

/// A template argument, declared to the body under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TemplateArg {
    /// An integer of at least 0.
    Int(i32),
    /// A truth value.
    Bool(bool),
    /// An element type.
    Dtype(Dtype),
}

/// A kernel's text for one compiler. The signature is generated around the body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KernelText {
    /// What stands before the generated function.
    pub header: String,
    /// The function's body.
    pub body: String,
}

/// What a kernel is: names, text and layout demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSource {
    /// An identifier that no other source shares.
    pub name: String,
    /// Input names, in order; each is visible in the body.
    pub inputs: Vec<String>,
    /// Output names, in order.
    pub outputs: Vec<String>,
    /// Metal text, also what the simulator runs; without it the kernel is for CUDA alone.
    pub metal: Option<KernelText>,
    /// CUDA text; without it the kernel cannot run there.
    pub cuda: Option<KernelText>,
    /// Copy inputs that are not row-contiguous before the launch.
    pub ensure_row_contiguous: bool,
}

impl KernelSource {
    /// The Metal text, for a back end that needs it.
    pub(crate) fn metal_text(&self, backend: Backend) -> Result<&KernelText, Error> {
        self.metal.as_ref().ok_or_else(|| Error::Unavailable {
            backend,
            reason: format!("kernel {} has no Metal text", self.name),
        })
    }
}

/// One launch: sizes, template arguments and outputs.
///
/// `grid` counts **threads**, as Metal's `dispatchThreads` does, not groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// Threads along x, y and z.
    pub grid: [i32; 3],
    /// Threads of a group along x, y and z; at most 1024 together.
    pub threadgroup: [i32; 3],
    /// Template arguments, in declaration order.
    pub template: Vec<(String, TemplateArg)>,
    /// Outputs, one for each output name.
    pub outputs: Vec<OutputSpec>,
    /// Fills every output before the launch; without it the kernel must write every element.
    pub init_value: Option<f32>,
}

/// Where a kernel is launched.
#[derive(Clone)]
pub enum KernelDevice {
    /// An Apple GPU.
    Metal,
    /// An NVIDIA GPU.
    Cuda,
    /// The CPU, through this simulator.
    Sim(Arc<dyn Simulator>),
}

/// A kernel that can be launched on every back end that it has text for.
///
/// Build it once and keep it: MLX compiles each set of template arguments once per kernel object.
#[derive(Debug)]
pub struct Kernel {
    source: Arc<KernelSource>,
    metal: OnceCell<MetalKernel>,
    cuda: OnceCell<CudaKernel>,
}

impl Kernel {
    /// Checks names and text; compiles nothing yet.
    ///
    /// # Errors
    ///
    /// When a name is not an identifier or names two things, there is no output, or text is not
    /// ASCII.
    pub fn new(source: KernelSource) -> Result<Self, Error> {
        check_source(&source)?;
        Ok(Self {
            source: Arc::new(source),
            metal: OnceCell::new(),
            cuda: OnceCell::new(),
        })
    }

    /// What the kernel was built from.
    pub fn source(&self) -> &KernelSource {
        &self.source
    }

    /// Adds a node that runs the kernel, and returns its lazy outputs.
    ///
    /// # Errors
    ///
    /// When counts, sizes or template arguments are wrong, or the back end is not available. A body
    /// that does not compile is an error of the `eval` that needed it.
    ///
    /// # Safety
    ///
    /// For these inputs and this launch the kernel must stay inside its inputs and outputs, write
    /// no input, write every output element (unless `init_value` is set), and have no conflicting
    /// accesses that it does not synchronise.
    pub unsafe fn apply(
        &self,
        device: &KernelDevice,
        inputs: &[&Array],
        launch: &Launch,
    ) -> Result<Vec<Array>, Error> {
        check_launch(&self.source, inputs.len(), launch)?;
        match device {
            // SAFETY: passed on to the caller.
            KernelDevice::Metal => unsafe {
                self.metal
                    .get_or_try_init(|| MetalKernel::new(&self.source))?
                    .apply(inputs, launch)
            },
            // SAFETY: passed on to the caller.
            KernelDevice::Cuda => unsafe {
                self.cuda
                    .get_or_try_init(|| CudaKernel::new(&self.source))?
                    .apply(inputs, launch)
            },
            KernelDevice::Sim(simulator) => self.simulate(Arc::clone(simulator), inputs, launch),
        }
    }

    fn simulate(
        &self,
        simulator: Arc<dyn Simulator>,
        inputs: &[&Array],
        launch: &Launch,
    ) -> Result<Vec<Array>, Error> {
        let source = Arc::clone(&self.source);
        let text = source.metal_text(Backend::Sim)?.clone();
        let owned = launch.clone();
        HostOp::new(&self.source.name).apply(inputs, &launch.outputs, move |inputs, outputs| {
            let inputs: Vec<_> = inputs
                .iter()
                .map(|input| SimInput {
                    shape: input.shape(),
                    dtype: input.dtype(),
                    bytes: input.as_bytes(),
                })
                .collect();
            let call = SimLaunch {
                name: &source.name,
                input_names: &source.inputs,
                output_names: &source.outputs,
                text: &text,
                inputs: &inputs,
                outputs: &owned.outputs,
                template: &owned.template,
                grid: owned.grid,
                threadgroup: owned.threadgroup,
                init_value: owned.init_value,
            };
            let mut bytes: Vec<_> = outputs.iter_mut().map(HostOutput::as_mut_bytes).collect();
            simulator.run(&call, &mut bytes).map_err(HostError::Failed)
        })
    }
}

fn check_source(source: &KernelSource) -> Result<(), Error> {
    let name = || source.name.clone();
    if source.outputs.is_empty() {
        return Err(Error::NoOutputs { name: name() });
    }
    let operands = source.inputs.iter().chain(&source.outputs);
    for identifier in std::iter::once(&source.name).chain(operands) {
        if !is_identifier(identifier) {
            return Err(Error::Name {
                name: identifier.clone(),
            });
        }
    }
    unique(&source.name, named(source).into_iter())?;
    for text in source.metal.iter().chain(&source.cuda) {
        for (what, content) in [("header", &text.header), ("body", &text.body)] {
            if let Some(found) = content.chars().find(|character| !character.is_ascii()) {
                return Err(Error::NotAscii {
                    kernel: name(),
                    what,
                    found,
                });
            }
        }
    }
    Ok(())
}

fn check_launch(source: &KernelSource, inputs: usize, launch: &Launch) -> Result<(), Error> {
    let kernel = || source.name.clone();
    for (what, expected, found) in [
        ("inputs", source.inputs.len(), inputs),
        ("outputs", source.outputs.len(), launch.outputs.len()),
    ] {
        if expected != found {
            return Err(Error::Count {
                kernel: kernel(),
                what,
                expected,
                found,
            });
        }
    }
    check_outputs(&source.name, &launch.outputs)?;
    for (what, found) in [("grid", launch.grid), ("threadgroup", launch.threadgroup)] {
        if found.iter().any(|&size| size < 1) {
            return Err(Error::NotPositive {
                kernel: kernel(),
                what,
                found,
            });
        }
    }
    let threads = launch
        .threadgroup
        .iter()
        .map(|&size| i64::from(size))
        .product();
    if threads > MAX_THREADS_PER_GROUP {
        let found = launch.threadgroup;
        let limit = MAX_THREADS_PER_GROUP;
        return Err(Error::ThreadgroupSize {
            kernel: kernel(),
            found,
            threads,
            limit,
        });
    }
    for (name, argument) in &launch.template {
        if !is_identifier(name) {
            return Err(Error::Name { name: name.clone() });
        }
        if let TemplateArg::Int(found @ ..0) = *argument {
            return Err(Error::NegativeTemplate {
                kernel: kernel(),
                name: name.clone(),
                found,
            });
        }
    }
    let templates = launch
        .template
        .iter()
        .map(|(name, _)| (name.as_str(), "a template parameter"));
    unique(&source.name, named(source).into_iter().chain(templates))
}

fn named(source: &KernelSource) -> Vec<(&str, &'static str)> {
    let inputs = source.inputs.iter().map(|name| (name.as_str(), "an input"));
    let outputs = source
        .outputs
        .iter()
        .map(|name| (name.as_str(), "an output"));
    inputs.chain(outputs).collect()
}

fn unique<'a>(
    kernel: &str,
    names: impl Iterator<Item = (&'a str, &'static str)>,
) -> Result<(), Error> {
    let mut seen = HashMap::new();
    for (name, second) in names {
        if let Some(first) = seen.insert(name, second) {
            let (kernel, name) = (kernel.to_owned(), name.to_owned());
            return Err(Error::DuplicateName {
                kernel,
                name,
                first,
                second,
            });
        }
    }
    Ok(())
}

fn is_identifier(name: &str) -> bool {
    name.chars()
        .all(|character| character.is_ascii_alphanumeric() || character == '_')
        && name
            .chars()
            .next()
            .is_some_and(|first| !first.is_ascii_digit())
}
