//! Llama- and Qwen-style models on MLX arrays: loading, generation, KL measurement.
//!
//! A [`Model`] is loaded once, from a GGUF file or an MLX or Hugging Face folder. What multiplies its
//! weights is chosen at each forward pass: a [`Pass`] names a set of [`Kernels`], be it MLX's own
//! ([`kernels::Stock`]), those of `mlx_kernels` ([`kernels::Extension`]) or the float32 weights that
//! both approximate ([`kernels::Dense`]). So [`kl::measure`] compares them on one set of weights, and
//! [`generate::Generator`] runs under any of them.
//!
//! ```no_run
//! use mlx_model::generate::{GenerateOptions, Generator};
//! use mlx_model::kernels::Extension;
//! use mlx_model::{LoadOptions, Model, Pass, TextStream, Tokenizer};
//!
//! let path = "model.gguf".as_ref();
//! let (model, tokenizer) = (Model::load(path, LoadOptions::default())?, Tokenizer::load(path)?);
//! let kernels = Extension::new(mlx_kernels::Context::detect());
//! let prompt = tokenizer.encode("Once upon a time")?;
//! let options = GenerateOptions::default();
//! let mut text = TextStream::new(&tokenizer);
//! for token in Generator::new(&model, Pass::new(&kernels), &prompt, options)? {
//!     print!("{}", text.push(token?)?);
//! }
//! println!("{}", text.finish()?);
//! # Ok::<(), mlx_model::ModelError>(())
//! ```
//!
//! [`quantize::quantize`] writes a model anew in trellis codes or in MLX's affine mode.
//!
//! Files are not trusted: sizes, offsets, dtypes and shapes are checked before memory is touched, and
//! an error says what was found and what was expected.

#![forbid(unsafe_code)]

mod cache;
mod checkpoint;
pub mod config;
mod error;
pub mod generate;
pub mod gguf;
mod hf;
pub mod kernels;
pub mod kl;
mod layers;
mod model;
pub mod quantize;
mod random;
mod rotation;
mod statistics;
mod tokenizer;
mod usage;
mod weight;

pub use cache::KvCache;
pub use config::ModelConfig;
pub use error::{ModelError, Result};
pub use kernels::Kernels;
pub use layers::Pass;
pub use model::{LoadOptions, Model};
pub use statistics::{InputStatistics, Site};
pub use tokenizer::{ChatTemplate, Message, Role, TextStream, Tokenizer};
pub use usage::{LayerKind, Usage, UsageLine};
pub use weight::{QuantizedWeight, TrellisMatrix, Weight};
