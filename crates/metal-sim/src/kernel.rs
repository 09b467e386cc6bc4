//! A kernel's source, as MLX's `metal_kernel` takes it, and one launch of it.

use crate::{DType, Element, SimError};

/// Metal's limit of threads in a threadgroup.
pub const MAX_THREADS: usize = 1024;
/// Metal's limit of bound buffers.
pub const MAX_BUFFERS: usize = 31;

/// The source of a kernel: a function body, from which the signature is generated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KernelSource {
    /// Name, an identifier.
    pub name: String,
    /// Names of the inputs, in order.
    pub input_names: Vec<String>,
    /// Names of the outputs, in order; at least one.
    pub output_names: Vec<String>,
    /// The body of the kernel function.
    pub body: String,
    /// What comes before the function: helper functions, constants. May be empty.
    pub header: String,
}

/// An input array: its bytes, and what the body can learn of it.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// The elements, in memory order.
    pub data: &'a [u8],
    /// The shape; empty for a single value, which is passed by reference.
    pub shape: Vec<usize>,
    /// Strides in elements; those of a row-major array when absent.
    pub strides: Option<Vec<i64>>,
    /// Element type.
    pub dtype: DType,
}

impl<'a> Input<'a> {
    /// A row-major array of `dtype` from its bytes.
    #[must_use]
    pub fn new(data: &'a [u8], shape: &[usize], dtype: DType) -> Self {
        Self {
            data,
            shape: shape.to_vec(),
            strides: None,
            dtype,
        }
    }

    /// A row-major array from its elements.
    #[must_use]
    pub fn of<T: Element>(data: &'a [T], shape: &[usize]) -> Self {
        // SAFETY: elements are plain numbers without padding, and the slice covers exactly these
        // bytes.
        let bytes = unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) };
        Self::new(bytes, shape, T::DTYPE)
    }

    /// Number of elements by the shape.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Shape and element type of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSpec {
    /// The shape; empty for a single value.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: DType,
}

impl OutputSpec {
    /// An output of the given shape and type.
    #[must_use]
    pub fn new(shape: &[usize], dtype: DType) -> Self {
        Self {
            shape: shape.to_vec(),
            dtype,
        }
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }
}

/// The value of a template argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TemplateArg {
    /// An `int`; not negative.
    Int(i32),
    /// A `bool`.
    Bool(bool),
    /// A `typename`.
    DType(DType),
}

/// One launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// As many as the kernel names.
    pub inputs: &'a [Input<'a>],
    /// As many as the kernel names.
    pub outputs: &'a [OutputSpec],
    /// Template arguments in order, with their names.
    pub template: &'a [(&'a str, TemplateArg)],
    /// Threads along x, y and z: exactly as many run.
    pub grid: [usize; 3],
    /// Threads of a group along x, y and z; at most the grid's are used. Groups at the far edges
    /// may be smaller.
    pub threadgroup: [usize; 3],
    /// What the outputs hold before the run. When absent they are poisoned, and an element that is
    /// never written is an error.
    pub init_value: Option<f32>,
}

fn is_identifier(name: &str) -> bool {
    name.chars()
        .enumerate()
        .all(|(i, c)| c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit()))
        && !name.is_empty()
}

fn check_ascii(kernel: &KernelSource, what: &'static str, text: &str) -> Result<(), SimError> {
    match text.lines().position(|line| !line.is_ascii()) {
        Some(at) => Err(SimError::NonAscii {
            kernel: kernel.name.clone(),
            what,
            line: at + 1,
        }),
        None => Ok(()),
    }
}

/// Checks everything about names and texts.
pub(crate) fn check_kernel(
    kernel: &KernelSource,
    template: &[(&str, TemplateArg)],
) -> Result<(), SimError> {
    let name = || kernel.name.clone();
    if kernel.output_names.is_empty() {
        return Err(SimError::NoOutputs { kernel: name() });
    }
    let inputs = kernel.input_names.iter().map(|n| ("input", n.as_str()));
    let outputs = kernel.output_names.iter().map(|n| ("output", n.as_str()));
    let arguments = template.iter().map(|&(n, _)| ("template argument", n));
    let mut seen: Vec<&str> = Vec::new();
    for (what, each) in inputs.chain(outputs).chain(arguments) {
        if !is_identifier(each) {
            return Err(SimError::InvalidName {
                kernel: name(),
                what,
                name: each.to_owned(),
            });
        }
        if seen.contains(&each) {
            return Err(SimError::DuplicateName {
                kernel: name(),
                name: each.to_owned(),
            });
        }
        seen.push(each);
    }
    if !is_identifier(&kernel.name) {
        return Err(SimError::InvalidName {
            kernel: name(),
            what: "kernel name",
            name: name(),
        });
    }
    for &(argument, value) in template {
        if let TemplateArg::Int(value @ ..0) = value {
            return Err(SimError::NegativeTemplate {
                kernel: name(),
                name: argument.to_owned(),
                value,
            });
        }
    }
    check_ascii(kernel, "body", &kernel.body)?;
    check_ascii(kernel, "header", &kernel.header)
}

fn check_count(
    kernel: &KernelSource,
    what: &'static str,
    names: &[String],
    found: usize,
) -> Result<(), SimError> {
    if names.len() == found {
        return Ok(());
    }
    Err(SimError::Count {
        kernel: kernel.name.clone(),
        what,
        expected: names.len(),
        found,
    })
}

/// Bytes of an array, if memory can hold so many.
fn byte_count(shape: &[usize], dtype: DType) -> Option<usize> {
    let bytes = shape
        .iter()
        .try_fold(dtype.size(), |bytes, &extent| bytes.checked_mul(extent))?;
    isize::try_from(bytes).is_ok().then_some(bytes)
}

/// Checks that an array's bytes fill its shape.
pub(crate) fn check_bytes(
    kernel: &KernelSource,
    name: &str,
    shape: &[usize],
    dtype: DType,
    found: usize,
) -> Result<(), SimError> {
    let expected = byte_count(shape, dtype);
    if expected == Some(found) {
        return Ok(());
    }
    Err(SimError::Bytes {
        kernel: kernel.name.clone(),
        name: name.to_owned(),
        shape: shape.to_vec(),
        dtype,
        expected: expected.unwrap_or(usize::MAX),
        found,
    })
}

/// Checks arrays and extents of a launch.
pub(crate) fn check_launch(kernel: &KernelSource, launch: &Launch<'_>) -> Result<(), SimError> {
    check_count(kernel, "inputs", &kernel.input_names, launch.inputs.len())?;
    check_count(
        kernel,
        "outputs",
        &kernel.output_names,
        launch.outputs.len(),
    )?;
    for (name, input) in kernel.input_names.iter().zip(launch.inputs) {
        check_bytes(kernel, name, &input.shape, input.dtype, input.data.len())?;
        if let Some(strides) = &input.strides
            && strides.len() != input.shape.len()
        {
            return Err(SimError::Strides {
                kernel: kernel.name.clone(),
                name: name.clone(),
                expected: input.shape.len(),
                found: strides.len(),
            });
        }
    }
    for (name, output) in kernel.output_names.iter().zip(launch.outputs) {
        let bytes = byte_count(&output.shape, output.dtype).unwrap_or(0);
        check_bytes(kernel, name, &output.shape, output.dtype, bytes)?;
    }
    for (what, extents) in [("grid", launch.grid), ("threadgroup", launch.threadgroup)] {
        if extents.iter().any(|&n| n == 0 || u32::try_from(n).is_err()) {
            return Err(SimError::Extent {
                kernel: kernel.name.clone(),
                what,
                found: extents,
            });
        }
    }
    let threads = launch
        .threadgroup
        .iter()
        .fold(1usize, |product, &n| product.saturating_mul(n));
    if threads > MAX_THREADS {
        return Err(SimError::ThreadgroupSize {
            kernel: kernel.name.clone(),
            found: threads,
            limit: MAX_THREADS,
        });
    }
    Ok(())
}
