//! GGUF files: a checked header, and tensors through MLX's loader.
//!
//! MLX's loader maps the file and trusts what its header says. So the header is read and checked
//! here first, and the loader only sees files whose every tensor lies inside the file.

mod header;
mod reader;
mod tensors;

pub use header::{Header, TensorInfo, TensorType};
pub use reader::Value;
pub(crate) use tensors::load_tensors;
