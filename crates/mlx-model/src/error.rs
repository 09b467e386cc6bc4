//! The one error type of this crate.

use std::path::PathBuf;

/// Result with a [`ModelError`].
pub type Result<T> = std::result::Result<T, ModelError>;

/// What can go wrong while a model is loaded, run or measured.
///
/// Every variant that judges a value says what was found and what was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file or folder that has to be there is not.
    #[error("{}: no such {expected}", path.display())]
    Missing {
        /// The path that was looked for.
        path: PathBuf,
        /// What should have been there.
        expected: &'static str,
    },
    /// The operating system refused to read a file.
    #[error("{}: cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A JSON file does not parse.
    #[error("{}: not valid JSON: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why parsing stopped.
        source: serde_json::Error,
    },
    /// A file ends before the data that its header announces.
    #[error("{}: truncated: {what} needs {needed} bytes, the file has {found}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Which part does not fit.
        what: String,
        /// File size in bytes that the part implies.
        needed: u64,
        /// File size in bytes.
        found: u64,
    },
    /// A file is not of the format that it should be.
    #[error("{}: not a usable {format} file: {what} is {found}, expected {expected}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Name of the format.
        format: &'static str,
        /// Which field is wrong.
        what: String,
        /// What the field holds.
        found: String,
        /// What it must hold.
        expected: String,
    },
    /// A shard index names files that are not there.
    #[error("{}: names shards that are missing: {}", index.display(), shards.join(", "))]
    MissingShards {
        /// The index file.
        index: PathBuf,
        /// Every missing shard, in order.
        shards: Vec<String>,
    },
    /// A configuration key or metadata key that has no default is absent.
    #[error("{}: key `{key}` is missing", path.display())]
    MissingKey {
        /// Where the key should be.
        path: PathBuf,
        /// The key.
        key: String,
    },
    /// A setting has a value that cannot be used.
    #[error("{what} is {found}, expected {expected}")]
    Invalid {
        /// The setting.
        what: String,
        /// Its value.
        found: String,
        /// What it must be.
        expected: String,
    },
    /// A tensor that the configuration calls for is absent.
    #[error("tensor `{name}` is missing")]
    MissingTensor {
        /// Name of the tensor.
        name: String,
    },
    /// A tensor has another shape than the configuration implies.
    #[error("tensor `{name}` has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// Name of the tensor.
        name: String,
        /// Its shape.
        found: Vec<i32>,
        /// The shape it must have.
        expected: Vec<i32>,
    },
    /// A tensor has an element type that cannot stand in its place.
    #[error("tensor `{name}` has dtype {found}, expected {expected}")]
    TensorDtype {
        /// Name of the tensor.
        name: String,
        /// Its element type.
        found: String,
        /// The element types that fit.
        expected: &'static str,
    },
    /// A quantized tensor's parts do not go together, or not with the configuration.
    #[error("quantized tensor `{name}`: {what} is {found}, expected {expected}")]
    Quantization {
        /// Name of the packed tensor.
        name: String,
        /// Which property is wrong.
        what: &'static str,
        /// Its value.
        found: String,
        /// What it must be.
        expected: String,
    },
    /// A tensor in trellis codes does not fit its configuration entry.
    #[error("trellis tensor `{name}`: {source}")]
    Trellis {
        /// Name of the tensor of codes.
        name: String,
        /// What does not fit.
        source: mlx_kernels::Error,
    },
    /// A matrix cannot be put into trellis codes.
    #[error("`{name}` cannot be encoded: {source}")]
    Encode {
        /// Path of the layer.
        name: String,
        /// Why.
        source: trellis_codec::Error,
    },
    /// Activations cannot be added up.
    #[error("input of {name}: {source}")]
    Statistics {
        /// The layer.
        name: String,
        /// Why.
        source: trellis_codec::Error,
    },
    /// The operating system refused to write a file.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The output is there already.
    #[error("{}: exists; outputs are only written anew", path.display())]
    OutputExists {
        /// The output.
        path: PathBuf,
    },
    /// A partial output is of another run than this one.
    #[error(
        "{}: a partial output with another {what}: {found}, not {expected}; run with its arguments to go on, or delete it",
        path.display()
    )]
    Resume {
        /// The partial output.
        path: PathBuf,
        /// What differs.
        what: String,
        /// What the partial output was begun with.
        found: String,
        /// What this run was asked for.
        expected: String,
    },
    /// Another process writes to a partial output.
    #[error("{}: in use by another process", path.display())]
    Busy {
        /// The partial output.
        path: PathBuf,
    },
    /// No tokens were given to start from.
    #[error("the prompt holds no tokens, expected at least one")]
    EmptyPrompt,
    /// More tokens than the model was made for.
    #[error("{found} tokens do not fit the context length of {limit}")]
    ContextLength {
        /// Tokens in the cache and the new ones together.
        found: usize,
        /// The model's context length.
        limit: usize,
    },
    /// A token id that the vocabulary does not have.
    #[error("token id {found} is outside the vocabulary of {vocabulary}")]
    TokenOutOfRange {
        /// The token id.
        found: u32,
        /// Number of tokens in the vocabulary.
        vocabulary: usize,
    },
    /// The tokenizer could not be built or used.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// The model carries no chat template.
    #[error("the model has no chat template; give a plain prompt instead")]
    NoChatTemplate,
    /// The chat template does not parse or refused the messages.
    #[error("chat template: {0:#}")]
    ChatTemplate(#[from] minijinja::Error),
    /// A kernel of this project refused its arguments or could not run.
    #[error("kernel: {0}")]
    Kernel(#[from] mlx_kernels::Error),
    /// MLX reported an error.
    #[error("MLX: {0}")]
    Mlx(#[from] mlx_rs::error::Exception),
}

impl ModelError {
    pub(crate) fn invalid(
        what: impl Into<String>,
        found: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Invalid {
            what: what.into(),
            found: found.to_string(),
            expected: expected.into(),
        }
    }
}
