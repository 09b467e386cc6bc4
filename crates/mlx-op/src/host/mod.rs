//! Lazy MLX nodes that run Rust code.

mod ffi;
mod stream;
mod tensor;

use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use mlx_rs::{Array, Dtype};

pub use tensor::{Element, HostInput, HostOutput};

use crate::error::{Error, HostError};

/// Shape and element type of one output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSpec {
    /// Dimensions, each at least 0.
    pub shape: Vec<i32>,
    /// Element type.
    pub dtype: Dtype,
}

impl OutputSpec {
    /// An output of this shape and element type.
    pub fn new(shape: impl Into<Vec<i32>>, dtype: Dtype) -> Self {
        Self {
            shape: shape.into(),
            dtype,
        }
    }
}

type Body =
    Box<dyn Fn(&[HostInput<'_>], &mut [HostOutput<'_>]) -> Result<(), HostError> + Send + Sync>;

/// What a node runs.
struct Closure {
    /// How many of the last inputs are what the first outputs begin as.
    changes: usize,
    body: Body,
}

/// An operation of an MLX graph whose evaluation calls a Rust closure.
///
/// Like any MLX operation it is lazy: [`apply`](Self::apply) adds a node, and the closure runs on
/// the stream's thread when one of the outputs is evaluated. It runs on CPU streams, on every
/// platform; on a machine with a GPU, MLX orders it after the GPU work that it depends on.
///
/// An error or a panic in the closure becomes the error of the `eval` that needed it. The closure
/// is dropped exactly once, when the node is gone, evaluated or not.
///
/// ```
/// use mlx_op::{HostOp, OutputSpec};
/// use mlx_rs::{Array, Dtype};
///
/// let x = Array::from_slice(&[1.0_f32, 2.0, 3.0], &[3]);
/// let doubled = HostOp::new("double").apply(
///     &[&x],
///     &[OutputSpec::new([3], Dtype::Float32)],
///     |inputs, outputs| {
///         let x = inputs[0].as_slice::<f32>()?;
///         for (y, x) in outputs[0].as_mut_slice::<f32>()?.iter_mut().zip(x) {
///             *y = 2.0 * x;
///         }
///         Ok(())
///     },
/// )?;
/// assert_eq!(doubled[0].as_slice::<f32>(), [2.0, 4.0, 6.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct HostOp {
    name: String,
}

impl HostOp {
    /// An operation of this name, which appears in error messages and exported graphs.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// Adds a node over `inputs` with the given outputs.
    ///
    /// The closure gets the inputs row-contiguous (a strided one is copied first) and the outputs
    /// zeroed. It may run more than once where MLX retains a graph.
    ///
    /// # Errors
    ///
    /// When there are no outputs, an output's shape is negative, or MLX refuses the node.
    pub fn apply<F>(
        &self,
        inputs: &[&Array],
        outputs: &[OutputSpec],
        closure: F,
    ) -> Result<Vec<Array>, Error>
    where
        F: Fn(&[HostInput<'_>], &mut [HostOutput<'_>]) -> Result<(), HostError>
            + Send
            + Sync
            + 'static,
    {
        self.update(inputs, &[], outputs, closure)
    }

    /// Adds a node over `inputs` that changes the contents of `updated` and has further outputs.
    ///
    /// The results are the arrays of `updated` with their new contents, then those of `outputs`; the
    /// closure gets its outputs in this order, the updated ones with the contents that they had. It
    /// works in the old array's memory where nobody else can see that, else in a copy: drop the
    /// handles of `updated` before evaluation.
    ///
    /// # Errors
    ///
    /// As [`Self::apply`].
    pub fn update<F>(
        &self,
        inputs: &[&Array],
        updated: &[&Array],
        outputs: &[OutputSpec],
        closure: F,
    ) -> Result<Vec<Array>, Error>
    where
        F: Fn(&[HostInput<'_>], &mut [HostOutput<'_>]) -> Result<(), HostError>
            + Send
            + Sync
            + 'static,
    {
        let changes = updated.len();
        let outputs: Vec<OutputSpec> = updated
            .iter()
            .map(|array| OutputSpec::new(array.shape(), array.dtype()))
            .chain(outputs.iter().cloned())
            .collect();
        check_outputs(&self.name, &outputs)?;
        let name = CString::new(self.name.as_str()).map_err(|_| Error::Name {
            name: self.name.clone(),
        })?;
        let input_handles: Vec<_> = inputs
            .iter()
            .chain(updated)
            .map(|array| array.as_ptr())
            .collect();
        let shapes: Vec<i32> = outputs
            .iter()
            .flat_map(|output| output.shape.clone())
            .collect();
        let ranks: Vec<usize> = outputs.iter().map(|output| output.shape.len()).collect();
        let dtypes: Vec<_> = outputs
            .iter()
            .map(|output| u32::from(output.dtype))
            .collect();
        // SAFETY: makes empty handles, which `from_ptr` below takes over.
        let mut results: Vec<_> = outputs
            .iter()
            .map(|_| unsafe { mlx_sys::mlx_array_new() })
            .collect();
        let stream = stream::cpu();
        let boxed = Closure {
            changes,
            body: Box::new(closure),
        };
        let context: *mut c_void = Box::into_raw(Box::new(boxed)).cast();
        // SAFETY: every pointer outlives the call and has the stated number of elements; the
        // callee takes `context` over and gives it to `drop_closure` exactly once.
        let message = unsafe {
            ffi::mlx_op_host_apply(
                name.as_ptr(),
                input_handles.as_ptr(),
                input_handles.len(),
                shapes.as_ptr(),
                ranks.as_ptr(),
                dtypes.as_ptr(),
                outputs.len(),
                changes,
                context,
                call_closure,
                drop_closure,
                stream.as_ptr(),
                results.as_mut_ptr(),
            )
        };
        // SAFETY: each handle is owned by nobody else.
        let results = results
            .into_iter()
            .map(|handle| unsafe { Array::from_ptr(handle) })
            .collect();
        // SAFETY: the message is null or a C string that the callee allocated.
        match unsafe { take_message(message) } {
            Some(reason) => Err(Error::Node {
                name: self.name.clone(),
                reason,
            }),
            None => Ok(results),
        }
    }
}

pub(crate) fn check_outputs(name: &str, outputs: &[OutputSpec]) -> Result<(), Error> {
    if outputs.is_empty() {
        return Err(Error::NoOutputs {
            name: name.to_owned(),
        });
    }
    for (index, output) in outputs.iter().enumerate() {
        if output.shape.iter().any(|&size| size < 0) {
            let shape = output.shape.clone();
            return Err(Error::NegativeShape {
                name: name.to_owned(),
                index,
                shape,
            });
        }
    }
    Ok(())
}

/// # Safety
///
/// `message` is null or a C string from `primitive.cpp`, not used afterwards.
unsafe fn take_message(message: *mut c_char) -> Option<String> {
    if message.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let text = std::ffi::CStr::from_ptr(message)
            .to_string_lossy()
            .into_owned();
        ffi::mlx_op_free_message(message);
        Some(text)
    }
}

unsafe extern "C" fn drop_closure(context: *mut c_void) {
    // SAFETY: `context` came from `Box::into_raw` in `apply` and is dropped only here. A closure
    // whose captures panic on drop must not unwind into C++.
    let closure = unsafe { Box::from_raw(context.cast::<Closure>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(closure)));
}

unsafe extern "C" fn call_closure(
    context: *mut c_void,
    inputs: *const ffi::RawTensor,
    input_count: usize,
    outputs: *const ffi::RawTensor,
    output_count: usize,
) -> *mut c_char {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `primitive.cpp` passes the closure of `apply`, alive for the call, and arrays of
        // the stated lengths; MLX keeps the operands alive and orders writers around the task.
        unsafe {
            let closure = &*context.cast::<Closure>();
            let fresh = input_count - closure.changes;
            let old = operands(inputs.add(fresh), closure.changes);
            let inputs = operands(inputs, fresh)
                .map(|raw| input_of(raw))
                .collect::<Result<Vec<_>, HostError>>()?;
            let old = old.map(Some).chain(std::iter::repeat(None));
            let mut outputs = operands(outputs, output_count)
                .zip(old)
                .map(|(raw, old)| output_of(raw, old))
                .collect::<Result<Vec<_>, HostError>>()?;
            (closure.body)(&inputs, &mut outputs)
        }
    }));
    let message = match outcome {
        Ok(Ok(())) => return std::ptr::null_mut(),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => HostError::Panic(panic_text(&*panic)).to_string(),
    };
    // SAFETY: the text is `len` readable bytes.
    unsafe { ffi::mlx_op_copy_message(message.as_ptr().cast(), message.len()) }
}

/// # Safety
///
/// `first` points to `count` tensors, or `count` is 0.
unsafe fn operands<'a>(
    first: *const ffi::RawTensor,
    count: usize,
) -> impl Iterator<Item = &'a ffi::RawTensor> {
    // SAFETY: the caller's promise.
    (0..count).map(move |index| unsafe { &*first.add(index) })
}

/// # Safety
///
/// `raw` came from `primitive.cpp` in the running call, which keeps its elements.
unsafe fn input_of(raw: &ffi::RawTensor) -> Result<HostInput<'_>, HostError> {
    let dtype = dtype_of(raw)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { HostInput::new(raw.data.cast(), shape_of(raw), strides_of(raw), dtype) })
}

/// An output that begins as `old`, perhaps in its memory, else as zeros.
///
/// # Safety
///
/// As for [`input_of`], and nobody else uses the elements of `raw`.
unsafe fn output_of<'a>(
    raw: &'a ffi::RawTensor,
    old: Option<&ffi::RawTensor>,
) -> Result<HostOutput<'a>, HostError> {
    let (data, dtype) = (raw.data.cast(), dtype_of(raw)?);
    // SAFETY: the caller's promise; where the memory is the old array's, its elements are there.
    unsafe {
        Ok(match old {
            None => HostOutput::zeroed(data, shape_of(raw), dtype),
            Some(old) if old.data == raw.data => HostOutput::filled(data, shape_of(raw), dtype),
            Some(old) => {
                let mut output = HostOutput::zeroed(data, shape_of(raw), dtype);
                output
                    .as_mut_bytes()
                    .copy_from_slice(input_of(old)?.as_bytes());
                output
            }
        })
    }
}

/// # Safety
///
/// `raw` came from `primitive.cpp` in the running call.
unsafe fn shape_of(raw: &ffi::RawTensor) -> &[i32] {
    if raw.rank == 0 {
        return &[];
    }
    // SAFETY: `shape` has `rank` elements for as long as the call runs.
    unsafe { std::slice::from_raw_parts(raw.shape, raw.rank) }
}

/// # Safety
///
/// As for [`shape_of`].
unsafe fn strides_of(raw: &ffi::RawTensor) -> &[i64] {
    if raw.rank == 0 {
        return &[];
    }
    // SAFETY: `strides` has `rank` elements for as long as the call runs.
    unsafe { std::slice::from_raw_parts(raw.strides, raw.rank) }
}

fn dtype_of(raw: &ffi::RawTensor) -> Result<Dtype, HostError> {
    Dtype::try_from(raw.dtype).map_err(|_| {
        HostError::Failed(format!("MLX passed an unknown dtype, number {}", raw.dtype))
    })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is not text".to_owned())
}
