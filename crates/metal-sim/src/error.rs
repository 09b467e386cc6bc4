//! What can be wrong with a kernel, a launch, or a run.

use std::{fmt, path::PathBuf};

use crate::DType;

/// Where a thread stopped: the operation and the line of the source that called it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the operation, such as `threadgroup_barrier` or `simd_sum`.
    pub operation: String,
    /// `body` or `header`: which of the kernel's two texts the line counts in.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// A thread that stopped there: its position in the threadgroup.
    pub thread: [u32; 3],
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.thread;
        write!(
            f,
            "{} at {} line {} (thread {x}, {y}, {z})",
            self.operation, self.file, self.line
        )
    }
}

/// Errors of [`Simulator`](crate::Simulator).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A kernel needs an output.
    #[error("kernel {kernel}: no outputs are named; at least one is needed")]
    NoOutputs {
        /// Name of the kernel.
        kernel: String,
    },
    /// A name cannot stand in generated source.
    #[error("kernel {kernel}: {what} `{name}` is not an identifier")]
    InvalidName {
        /// Name of the kernel.
        kernel: String,
        /// What the name is of.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Two inputs, outputs or template arguments share a name.
    #[error(
        "kernel {kernel}: the name `{name}` is used twice among inputs, outputs and template arguments"
    )]
    DuplicateName {
        /// Name of the kernel.
        kernel: String,
        /// The name.
        name: String,
    },
    /// The text is not ASCII, as Metal's compiler wants it.
    #[error("kernel {kernel}: the {what} has a non-ASCII character in line {line}")]
    NonAscii {
        /// Name of the kernel.
        kernel: String,
        /// `body` or `header`.
        what: &'static str,
        /// Line, from 1.
        line: usize,
    },
    /// A threadgroup declaration the translation does not understand.
    #[error("kernel {kernel}: body line {line}: {problem}")]
    Declaration {
        /// Name of the kernel.
        kernel: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// As many arrays as names are needed.
    #[error("kernel {kernel}: {found} {what} given, {expected} named")]
    Count {
        /// Name of the kernel.
        kernel: String,
        /// `inputs` or `outputs`.
        what: &'static str,
        /// Names.
        expected: usize,
        /// Arrays.
        found: usize,
    },
    /// An array's bytes do not match its shape and type.
    #[error(
        "kernel {kernel}: {name} has {found} bytes; shape {shape:?} of {dtype:?} takes {expected}"
    )]
    Bytes {
        /// Name of the kernel.
        kernel: String,
        /// Name of the input or output.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Its element type.
        dtype: DType,
        /// Bytes of that shape.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// One stride an axis is needed.
    #[error("kernel {kernel}: {name} has {found} strides for {expected} axes")]
    Strides {
        /// Name of the kernel.
        kernel: String,
        /// Name of the input.
        name: String,
        /// Axes.
        expected: usize,
        /// Strides.
        found: usize,
    },
    /// A template integer becomes part of an identifier in MLX, where a minus sign cannot stand.
    #[error("kernel {kernel}: template argument {name} is {value}; it must not be negative")]
    NegativeTemplate {
        /// Name of the kernel.
        kernel: String,
        /// Name of the argument.
        name: String,
        /// Its value.
        value: i32,
    },
    /// Metal binds at most 31 buffers.
    #[error(
        "kernel {kernel}: {found} buffers are bound (shapes, strides and ranks that the body mentions included); Metal allows {limit}"
    )]
    Buffers {
        /// Name of the kernel.
        kernel: String,
        /// Buffers needed.
        found: usize,
        /// Metal's limit.
        limit: usize,
    },
    /// An axis of the grid or of the threadgroup is zero or too large to count.
    #[error("kernel {kernel}: {what} is {found:?}; every axis must lie between 1 and 4294967295")]
    Extent {
        /// Name of the kernel.
        kernel: String,
        /// `grid` or `threadgroup`.
        what: &'static str,
        /// The extents.
        found: [usize; 3],
    },
    /// Too many threads in a group.
    #[error(
        "kernel {kernel}: a threadgroup of {found} threads was asked for; the limit is {limit}"
    )]
    ThreadgroupSize {
        /// Name of the kernel.
        kernel: String,
        /// Threads.
        found: usize,
        /// Metal's limit.
        limit: usize,
    },
    /// The C++ compiler cannot be run.
    #[error("the C++ compiler `{compiler}` cannot be run: {reason}")]
    Compiler {
        /// The compiler's command.
        compiler: String,
        /// Why.
        reason: String,
    },
    /// The kernel does not compile.
    #[error("kernel {kernel} does not compile:\n{log}")]
    Compile {
        /// Name of the kernel.
        kernel: String,
        /// What the compiler printed; lines count in `body` and `header`.
        log: String,
    },
    /// A file of the cache cannot be read or written.
    #[error("{path}: {source}")]
    Cache {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The compiled kernel cannot be loaded.
    #[error("{path} cannot be loaded: {reason}")]
    Load {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Memory for a thread's stack cannot be had.
    #[error("no memory for a stack of {bytes} bytes: {source}")]
    Stack {
        /// Size of the stack.
        bytes: usize,
        /// Why.
        source: std::io::Error,
    },
    /// Threads wait at different places: lanes of a simdgroup, or threads of a group at a barrier.
    #[error("kernel {kernel}, threadgroup {group:?}: divergence: {first}, while {second}")]
    Divergence {
        /// Name of the kernel.
        kernel: String,
        /// Position of the threadgroup.
        group: [u32; 3],
        /// One of the places.
        first: Box<Place>,
        /// Another.
        second: Box<Place>,
    },
    /// Threads wait for one that has returned: at a threadgroup barrier, or in a matrix operation,
    /// which needs all 32 lanes.
    #[error(
        "kernel {kernel}, threadgroup {group:?}: {waiting} waits for thread {missing} of the group, which has returned or does not exist"
    )]
    Missing {
        /// Name of the kernel.
        kernel: String,
        /// Position of the threadgroup.
        group: [u32; 3],
        /// Where the others wait.
        waiting: Box<Place>,
        /// The missing thread's index in the threadgroup.
        missing: u32,
    },
    /// The kernel declares more threadgroup memory than there is.
    #[error(
        "kernel {kernel}: {place} needs {wanted} bytes of threadgroup memory; there are {limit}"
    )]
    ThreadgroupMemory {
        /// Name of the kernel.
        kernel: String,
        /// The declaration.
        place: Box<Place>,
        /// Bytes up to the end of that declaration.
        wanted: usize,
        /// Bytes available.
        limit: usize,
    },
    /// Elements of an output that no thread wrote.
    #[error(
        "kernel {kernel}: output {output}: {count} of {total} elements were never written, first of them {first}"
    )]
    Unwritten {
        /// Name of the kernel.
        kernel: String,
        /// Name of the output.
        output: String,
        /// Index of the first.
        first: usize,
        /// How many.
        count: usize,
        /// Elements of the output.
        total: usize,
    },
    /// A write before the start or past the end of a buffer.
    #[error("kernel {kernel}: {buffer} was written out of bounds, at element {element} of {total}")]
    OutOfBounds {
        /// Name of the kernel.
        kernel: String,
        /// Name of the input or output.
        buffer: String,
        /// Index of the element nearest to the buffer; negative before its start.
        element: isize,
        /// Elements of the buffer.
        total: usize,
    },
    /// A write past the end of a threadgroup variable.
    #[error(
        "kernel {kernel}: threadgroup variable {variable} was written past its end, at byte {byte} of {bytes}"
    )]
    ThreadgroupOverrun {
        /// Name of the kernel.
        kernel: String,
        /// Name of the variable.
        variable: String,
        /// First byte past the end that was written.
        byte: usize,
        /// Size of the variable.
        bytes: usize,
    },
    /// An input changed during the run.
    #[error("kernel {kernel}: input {input} was written to, at element {element}")]
    InputWritten {
        /// Name of the kernel.
        kernel: String,
        /// Name of the input.
        input: String,
        /// Index of the first element that changed.
        element: usize,
    },
}
