//! Launching through MLX's Metal kernels.

use std::sync::Mutex;

use mlx_rs::Array;
use mlx_rs::fast::{
    MetalKernel as MlxKernel, MetalKernelApplyOptions, MetalKernelOptions, MetalKernelOutput,
    TemplateArg as MlxTemplateArg,
};

use crate::Backend;
use crate::error::Error;
use crate::kernel::{KernelSource, Launch, TemplateArg};

/// MLX's own kernel object. The lock serialises calls into it.
#[derive(Debug)]
pub(crate) struct MetalKernel(Mutex<MlxKernel>);

// SAFETY: the object is an owned handle to a C++ function object with no thread affinity, and the
// mutex lets one thread at a time use it.
unsafe impl Send for MetalKernel {}
// SAFETY: as above.
unsafe impl Sync for MetalKernel {}

impl MetalKernel {
    pub(crate) fn new(source: &KernelSource) -> Result<Self, Error> {
        if !Backend::Metal.is_available() {
            return Err(Error::Unavailable {
                backend: Backend::Metal,
                reason: "MLX reports no Metal device".to_owned(),
            });
        }
        let text = source.metal_text(Backend::Metal)?;
        let strings = |names: &[String]| names.to_vec();
        let (inputs, outputs) = (strings(&source.inputs), strings(&source.outputs));
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let options = MetalKernelOptions {
            header: text.header.clone(),
            ensure_row_contiguous: source.ensure_row_contiguous,
            atomic_outputs: false,
        };
        let kernel = MlxKernel::new(&source.name, &inputs, &outputs, &text.body, options)?;
        Ok(Self(Mutex::new(kernel)))
    }

    /// # Safety
    ///
    /// As for [`crate::Kernel::apply`].
    pub(crate) unsafe fn apply(
        &self,
        inputs: &[&Array],
        launch: &Launch,
    ) -> Result<Vec<Array>, Error> {
        let outputs: Vec<_> = launch
            .outputs
            .iter()
            .map(|output| MetalKernelOutput {
                shape: output.shape.clone(),
                dtype: output.dtype,
            })
            .collect();
        let template_args = launch
            .template
            .iter()
            .map(|(name, argument)| {
                let argument = match *argument {
                    TemplateArg::Int(value) => MlxTemplateArg::Int(value),
                    TemplateArg::Bool(value) => MlxTemplateArg::Bool(value),
                    TemplateArg::Dtype(value) => MlxTemplateArg::Dtype(value),
                };
                (name.clone(), argument)
            })
            .collect();
        let options = MetalKernelApplyOptions {
            template_args,
            init_value: launch.init_value,
            verbose: false,
        };
        let kernel = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: passed on to the caller.
        let results = unsafe {
            kernel.apply(
                inputs,
                &outputs,
                launch.grid.into(),
                launch.threadgroup.into(),
                options,
            )
        };
        Ok(results?)
    }
}
