//! Hugging Face and MLX folders: `config.json` beside one or several safetensors files.

mod folder;
mod safetensors_file;

pub(crate) use folder::{Folder, read_json, read_json_if_present};
