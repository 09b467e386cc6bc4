//! What can be wrong with a trellis module, its configuration entry or the arguments of a codec call.

use safetensors::Dtype;

/// Result alias of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of the trellis codec. Each names what was found and what it must be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration entry describes something other than a trellis module.
    #[error("not a trellis entry: mode is {mode:?} (must be \"trellis\") and the `trellis` block is {}", if *.has_block { "present" } else { "missing" })]
    NotTrellis {
        /// The entry's mode.
        mode: String,
        /// Whether the entry has a `trellis` block.
        has_block: bool,
    },
    /// The configuration entry is not of the documented shape.
    #[error("trellis entry cannot be read: {0}")]
    Entry(String),
    /// The entry names a code this crate does not know.
    #[error("trellis code {found:?} is unknown: it must be \"1mad\"")]
    UnknownCode {
        /// The code's name.
        found: String,
    },
    /// Bits per weight out of range.
    #[error("{found} bits per weight are not supported: k must be 1 to 8")]
    Bits {
        /// Bits per weight.
        found: u32,
    },
    /// State bits out of range for the bits per weight.
    #[error(
        "L = {found} state bits are not supported with k = {bits}: L must be more than k and at most 16"
    )]
    StateBits {
        /// State bits.
        found: u32,
        /// Bits per weight.
        bits: u32,
    },
    /// The axis is neither 0 nor 1.
    #[error("axis {found} is not supported: it must be 0 or 1")]
    Axis {
        /// The axis.
        found: u32,
    },
    /// A block of no weights, or of more than the format can address.
    #[error("a block of T = {found} weights is not supported: T must be 1 to 65536")]
    Block {
        /// Block length in weights.
        found: usize,
    },
    /// A block does not fill whole words.
    #[error(
        "T*k = {bits_per_block} bits ({block} weights of {bits} bits) are not a multiple of 32"
    )]
    BlockBits {
        /// Block length in weights.
        block: usize,
        /// Bits per weight.
        bits: u32,
        /// Their product.
        bits_per_block: usize,
    },
    /// The codes have the wrong dtype.
    #[error("trellis codes are {found:?}: they must be U32")]
    CodesDtype {
        /// The dtype found.
        found: Dtype,
    },
    /// A three-dimensional code array whose shape or entry does not describe interleaved block pairs.
    #[error("interleaved codes of shape {shape:?} are not supported by this entry: {reason}")]
    Interleaved {
        /// Shape of the codes.
        shape: Vec<usize>,
        /// The condition that fails.
        reason: String,
    },
    /// Codes of the wrong rank.
    #[error("trellis codes have {rank} dimensions: they must be 2-D, or 3-D when interleaved")]
    Rank {
        /// Number of dimensions found.
        rank: usize,
    },
    /// A row of words does not hold a whole number of symbols.
    #[error("{words} words per row are not a whole number of {bits}-bit symbols")]
    PartialSymbol {
        /// Words per row.
        words: usize,
        /// Bits per weight.
        bits: u32,
    },
    /// The coded dimension is not a whole number of blocks.
    #[error("{cols} coded columns are not a multiple of the block length T = {block}")]
    PartialBlock {
        /// Coded columns.
        cols: usize,
        /// Block length in weights.
        block: usize,
    },
    /// The scale array does not hold one number per stored row.
    #[error(
        "scales have shape {found:?}: they must be 1-D with one scale for each of the {rows} stored rows"
    )]
    Scales {
        /// Shape of the scales.
        found: Vec<usize>,
        /// Stored rows.
        rows: usize,
    },
    /// The scales have the wrong dtype.
    #[error("trellis scales are {found:?}: they must be F16")]
    ScalesDtype {
        /// The dtype found.
        found: Dtype,
    },
    /// A tensor of a module is missing.
    #[error("module {module:?} has no tensor {module}.{tensor}")]
    MissingTensor {
        /// Module path.
        module: String,
        /// `weight` or `scales`.
        tensor: &'static str,
    },
    /// The file's data cannot be what its header says.
    #[error("tensor {tensor} of shape {shape:?} holds {found} bytes: it must hold {expected}")]
    TensorBytes {
        /// Name of the tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Bytes found.
        found: usize,
        /// Bytes its shape and dtype call for.
        expected: usize,
    },
    /// An argument's length contradicts the geometry.
    #[error("{what} has {found} elements: it must have {expected}")]
    Length {
        /// The argument.
        what: &'static str,
        /// Elements found.
        found: usize,
        /// Elements needed.
        expected: usize,
    },
    /// A shape whose element count does not fit the address space.
    #[error("shape {shape:?} is too large to address")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// States that are no walk through the trellis.
    #[error("state {state} at position {position} does not follow state {previous} in the trellis")]
    BrokenPath {
        /// Position in the block of the offending state.
        position: usize,
        /// The offending state.
        state: u16,
        /// The state before it.
        previous: u16,
    },
    /// Rows that cannot be interleaved.
    #[error(
        "codes of shape {shape:?} cannot be interleaved: rows must hold complete block pairs ({pair} words each), at least one"
    )]
    BlockPairs {
        /// Shape of the codes.
        shape: Vec<usize>,
        /// Words of one block pair.
        pair: usize,
    },
    /// The layout asked for is already the array's, or needs another axis.
    #[error("{0}")]
    Layout(&'static str),
    /// A weight that is not a finite number.
    #[error("{what} holds {value} at row {row}, column {col}: it must be finite")]
    NotFinite {
        /// The argument.
        what: &'static str,
        /// Row of the first such element.
        row: usize,
        /// Column of the first such element.
        col: usize,
        /// The element.
        value: f32,
    },
    /// A geometry of another format than the encoder's.
    #[error("the geometry is of format {found:?}: the encoder's is {expected:?}")]
    Format {
        /// The geometry's format.
        found: crate::Format,
        /// The encoder's.
        expected: crate::Format,
    },
    /// An instruction set this machine does not have.
    #[error("the instruction set {level:?} is not available on this machine")]
    SimdLevel {
        /// The instruction set asked for.
        level: crate::SimdLevel,
    },
    /// A scale the encoder cannot divide by.
    #[error("the given scale of row {row} is {value}: it must be finite and not 0")]
    BadScale {
        /// Row of the scale.
        row: usize,
        /// The scale.
        value: f32,
    },
    /// The Hessian factor does not fit the weight.
    #[error(
        "the Hessian factor is {found} x {found}: it must be {expected} x {expected}, the layer's input features"
    )]
    FactorSize {
        /// Side of the factor.
        found: usize,
        /// Input features of the layer.
        expected: usize,
    },
    /// The blocks of a Hessian factor are not those of codes along the inputs.
    #[error(
        "the Hessian factor is in blocks of {found}: they must be {expected}, the block of the code"
    )]
    FactorBlock {
        /// Features of one block of the factor.
        found: usize,
        /// Weights of one block of the code.
        expected: usize,
    },
    /// The tensor of a factor's file is not a factor.
    #[error(
        "tensor \"L\" of the factor's file is {dtype:?} of shape {shape:?}: it must be a square F32 matrix"
    )]
    FactorTensor {
        /// Its dtype.
        dtype: Dtype,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// The Hessian stays singular after damping.
    #[error(
        "the Hessian is not positive definite at row {row} (pivot {pivot:e}) with damping {damping}: raise the damping"
    )]
    NotPositiveDefinite {
        /// Row of the failing pivot.
        row: usize,
        /// The pivot.
        pivot: f64,
        /// The relative damping used.
        damping: f64,
    },
    /// An operation that would need more memory than it may use.
    #[error("{what} needs {needed} bytes, above the ceiling of {ceiling}")]
    Memory {
        /// The operation.
        what: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes allowed.
        ceiling: usize,
    },
}

/// Checks the length of an argument.
pub(crate) fn expect_length(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::Length {
            what,
            found,
            expected,
        })
    }
}
