//! Llama- and Qwen-style models on MLX arrays: loading, generation, KL measurement.

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
mod tokenizer;
mod usage;
mod weight;

pub use cache::KvCache;
pub use config::ModelConfig;
pub use error::{ModelError, Result};
pub use kernels::Kernels;
pub use layers::Pass;
pub use model::{LoadOptions, Model};
pub use tokenizer::{ChatTemplate, Message, Role, TextStream, Tokenizer};
pub use usage::{LayerKind, Usage, UsageLine};
pub use weight::{QuantizedWeight, Weight};
