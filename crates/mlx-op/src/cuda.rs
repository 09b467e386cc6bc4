//! Launching through MLX's CUDA kernels, which mlx-rs does not wrap.

use std::ffi::CString;
use std::sync::Mutex;

use mlx_rs::{Array, Stream};

use crate::Backend;
use crate::error::Error;
use crate::kernel::{KernelSource, Launch, TemplateArg};

/// MLX's own kernel object. The lock serialises calls into it.
#[derive(Debug)]
pub(crate) struct CudaKernel(Mutex<Handle>);

#[derive(Debug)]
struct Handle(mlx_sys::mlx_fast_cuda_kernel);

// SAFETY: an owned handle to a C++ function object with no thread affinity.
unsafe impl Send for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { mlx_sys::mlx_fast_cuda_kernel_free(self.0) };
    }
}

impl CudaKernel {
    pub(crate) fn new(source: &KernelSource) -> Result<Self, Error> {
        let unavailable = |reason: String| Error::Unavailable {
            backend: Backend::Cuda,
            reason,
        };
        if !Backend::Cuda.is_available() {
            return Err(unavailable("MLX reports no CUDA device".to_owned()));
        }
        let text = source
            .cuda
            .as_ref()
            .ok_or_else(|| unavailable(format!("kernel {} has no CUDA text", source.name)))?;
        let name = c_string(&source.name)?;
        let body = c_string(&text.body)?;
        let header = c_string(&text.header)?;
        let inputs = StringVector::new(&source.inputs)?;
        let outputs = StringVector::new(&source.outputs)?;
        // SAFETY: all strings outlive the call, which copies them.
        let handle = unsafe {
            mlx_sys::mlx_fast_cuda_kernel_new(
                name.as_ptr(),
                inputs.0,
                outputs.0,
                body.as_ptr(),
                header.as_ptr(),
                source.ensure_row_contiguous,
                0,
            )
        };
        if handle.ctx.is_null() {
            return Err(unavailable(format!("MLX refused kernel {}", source.name)));
        }
        Ok(Self(Mutex::new(Handle(handle))))
    }

    /// # Safety
    ///
    /// As for [`crate::Kernel::apply`].
    pub(crate) unsafe fn apply(
        &self,
        inputs: &[&Array],
        launch: &Launch,
    ) -> Result<Vec<Array>, Error> {
        let config = Config::new(launch)?;
        let handles: Vec<_> = inputs.iter().map(|array| array.as_ptr()).collect();
        let stream = Stream::thread_local_or_gpu();
        let kernel = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: every handle is alive for the call; the vectors are freed below.
        unsafe {
            let operands = mlx_sys::mlx_vector_array_new_data(handles.as_ptr(), handles.len());
            let mut results = mlx_sys::mlx_vector_array_new();
            let status = mlx_sys::mlx_fast_cuda_kernel_apply(
                &raw mut results,
                kernel.0,
                operands,
                config.0,
                stream.as_ptr(),
            );
            mlx_sys::mlx_vector_array_free(operands);
            let arrays = check(status, "launching a CUDA kernel").and_then(|()| take(results));
            mlx_sys::mlx_vector_array_free(results);
            arrays
        }
    }
}

/// # Safety
///
/// `results` is alive.
unsafe fn take(results: mlx_sys::mlx_vector_array) -> Result<Vec<Array>, Error> {
    // SAFETY: the caller's promise; each handle made here is given to an `Array`.
    unsafe {
        (0..mlx_sys::mlx_vector_array_size(results))
            .map(|index| {
                let mut handle = mlx_sys::mlx_array_new();
                let status = mlx_sys::mlx_vector_array_get(&raw mut handle, results, index);
                let array = Array::from_ptr(handle);
                check(status, "reading a kernel's outputs").map(|()| array)
            })
            .collect()
    }
}

struct Config(mlx_sys::mlx_fast_cuda_kernel_config);

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { mlx_sys::mlx_fast_cuda_kernel_config_free(self.0) };
    }
}

impl Config {
    fn new(launch: &Launch) -> Result<Self, Error> {
        // SAFETY: makes a handle that `Drop` frees.
        let config = Self(unsafe { mlx_sys::mlx_fast_cuda_kernel_config_new() });
        let raw = config.0;
        let [x, y, z] = launch.grid;
        let [group_x, group_y, group_z] = launch.threadgroup;
        // SAFETY: `raw` is alive; pointers are to live data of the stated length.
        unsafe {
            for output in &launch.outputs {
                let (shape, rank) = (output.shape.as_ptr(), output.shape.len());
                let dtype = output.dtype.into();
                check(
                    mlx_sys::mlx_fast_cuda_kernel_config_add_output_arg(raw, shape, rank, dtype),
                    "adding a kernel output",
                )?;
            }
            check(
                mlx_sys::mlx_fast_cuda_kernel_config_set_grid(raw, x, y, z),
                "setting a kernel's grid",
            )?;
            check(
                mlx_sys::mlx_fast_cuda_kernel_config_set_thread_group(
                    raw, group_x, group_y, group_z,
                ),
                "setting a kernel's threadgroup",
            )?;
            for (name, argument) in &launch.template {
                let name = c_string(name)?;
                let name = name.as_ptr();
                let status = match *argument {
                    TemplateArg::Int(value) => {
                        mlx_sys::mlx_fast_cuda_kernel_config_add_template_arg_int(raw, name, value)
                    }
                    TemplateArg::Bool(value) => {
                        mlx_sys::mlx_fast_cuda_kernel_config_add_template_arg_bool(raw, name, value)
                    }
                    TemplateArg::Dtype(value) => {
                        mlx_sys::mlx_fast_cuda_kernel_config_add_template_arg_dtype(
                            raw,
                            name,
                            value.into(),
                        )
                    }
                };
                check(status, "adding a template argument")?;
            }
            if let Some(value) = launch.init_value {
                check(
                    mlx_sys::mlx_fast_cuda_kernel_config_set_init_value(raw, value),
                    "setting a kernel's initial value",
                )?;
            }
        }
        Ok(config)
    }
}

struct StringVector(mlx_sys::mlx_vector_string);

impl StringVector {
    fn new(names: &[String]) -> Result<Self, Error> {
        let owned = names
            .iter()
            .map(|name| c_string(name))
            .collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<_> = owned.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: `pointers` addresses that many C strings, which are copied.
        Ok(Self(unsafe {
            mlx_sys::mlx_vector_string_new_data(pointers.as_mut_ptr(), pointers.len())
        }))
    }
}

impl Drop for StringVector {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { mlx_sys::mlx_vector_string_free(self.0) };
    }
}

fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::Name {
        name: text.to_owned(),
    })
}

/// MLX's message, where it can be had, is behind mlx-rs's own error handling; the status is all
/// that a direct call returns.
fn check(status: i32, doing: &str) -> Result<(), Error> {
    if status == 0 {
        Ok(())
    } else {
        let reason = format!("MLX returned status {status} while {doing}");
        Err(Error::Unavailable {
            backend: Backend::Cuda,
            reason,
        })
    }
}
