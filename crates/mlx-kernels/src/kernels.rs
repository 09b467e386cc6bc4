//! Kernel objects: one for each shader, built on first use and kept.

use mlx_op::{Kernel, KernelDevice, KernelSource, KernelText, Launch};
use mlx_rs::Array;
use once_cell::sync::OnceCell;

use crate::Error;
use crate::shaders::{CudaShader, Shader, Text};

/// A shader and its kernel object.
pub(crate) struct CachedKernel {
    listed: Listed,
    kernel: OnceCell<Kernel>,
}

enum Listed {
    Everywhere(Shader),
    Cuda(CudaShader),
}

impl CachedKernel {
    pub(crate) const fn new(shader: Shader) -> Self {
        Self::listed(Listed::Everywhere(shader))
    }

    pub(crate) const fn cuda(shader: CudaShader) -> Self {
        Self::listed(Listed::Cuda(shader))
    }

    const fn listed(listed: Listed) -> Self {
        Self {
            listed,
            kernel: OnceCell::new(),
        }
    }

    /// Adds a node that runs the kernel.
    ///
    /// # Safety
    ///
    /// `inputs` and `launch` must be what the first comment of the shader's body calls for.
    pub(crate) unsafe fn apply(
        &self,
        device: &KernelDevice,
        inputs: &[&Array],
        launch: &Launch,
    ) -> Result<Vec<Array>, Error> {
        let kernel = self
            .kernel
            .get_or_try_init(|| Kernel::new(self.listed.source()))?;
        // SAFETY: the caller's promise; the bodies keep to their operands for such launches.
        Ok(unsafe { kernel.apply(device, inputs, launch) }?)
    }
}

impl Listed {
    fn source(&self) -> KernelSource {
        let (name, inputs, outputs, metal, cuda) = match self {
            Self::Everywhere(shader) => (
                shader.name,
                shader.inputs,
                shader.outputs,
                Some(shader.metal()),
                shader.cuda(),
            ),
            Self::Cuda(shader) => (
                shader.name,
                shader.inputs,
                shader.outputs,
                None,
                shader.text(),
            ),
        };
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let text = |Text { header, body }| KernelText { header, body };
        KernelSource {
            name: name.to_owned(),
            inputs: owned(inputs),
            outputs: owned(outputs),
            metal: metal.map(text),
            cuda: Some(text(cuda)),
            ensure_row_contiguous: true,
        }
    }
}

/// Template arguments from names and values, in order.
macro_rules! template {
    ($($name:literal => $value:expr),* $(,)?) => {
        vec![$(($name.to_owned(), $crate::kernels::IntoTemplateArg::into_template_arg($value))),*]
    };
}
pub(crate) use template;

/// A value of a template argument.
pub(crate) trait IntoTemplateArg {
    fn into_template_arg(self) -> mlx_op::TemplateArg;
}

impl IntoTemplateArg for i32 {
    fn into_template_arg(self) -> mlx_op::TemplateArg {
        mlx_op::TemplateArg::Int(self)
    }
}

impl IntoTemplateArg for mlx_rs::Dtype {
    fn into_template_arg(self) -> mlx_op::TemplateArg {
        mlx_op::TemplateArg::Dtype(self)
    }
}
