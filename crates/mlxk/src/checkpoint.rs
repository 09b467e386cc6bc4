//! The arguments that name a model, and loading it.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use clap::ValueEnum;
use mlx_kernels::{Backend, Context};
use mlx_model::config::QuantizationScheme;
use mlx_model::{LoadOptions, Model, Tokenizer};
use mlx_rs::Dtype;

/// Which model, and how its numbers are held.
#[derive(Debug, clap::Args)]
pub struct ModelArgs {
    /// GGUF file, or folder with config.json, safetensors and tokenizer.json.
    #[arg(long, value_name = "PATH")]
    pub model: PathBuf,

    /// Element type of activations, scales and norms.
    #[arg(long, value_enum, default_value_t = DtypeArg::Auto)]
    dtype: DtypeArg,

    /// Quantize every matrix anew to this many bits, in groups of this many weights (64 if not
    /// given).
    #[arg(long, value_name = "BITS[:GROUP]")]
    pub requantize: Option<SchemeArg>,

    /// Turn weights in trellis codes into 8-bit affine ones, in groups of 64, when loading: more
    /// memory and another rounding, but MLX's own kernels serve them.
    #[arg(long)]
    expand_trellis: bool,
}

/// Element types of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DtypeArg {
    /// The file's own on a GPU, float32 on the CPU
    Auto,
    /// float32
    F32,
    /// float16
    F16,
    /// bfloat16
    Bf16,
}

/// A scheme written `BITS` or `BITS:GROUP`.
#[derive(Debug, Clone, Copy)]
pub struct SchemeArg(pub QuantizationScheme);

impl FromStr for SchemeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (bits, group_size) = text.split_once(':').unwrap_or((text, "64"));
        let number = |name: &str, text: &str| {
            text.parse::<i32>()
                .map_err(|_| format!("{name} {text:?} is not a whole number"))
        };
        let scheme =
            QuantizationScheme::new(number("bits", bits)?, number("group size", group_size)?);
        scheme.map(Self).map_err(|error| error.to_string())
    }
}

impl ModelArgs {
    /// Loads the model as the file has it: [`Self::requantize`] is the caller's to apply.
    pub fn load_model(&self, context: &Context) -> anyhow::Result<Model> {
        self.load_other(&self.model, context)
            .context("loading the model")
    }

    /// Loads the model at `path` with its numbers held as this one's are.
    pub fn load_other(&self, path: &Path, context: &Context) -> anyhow::Result<Model> {
        let dtype = match self.dtype {
            DtypeArg::Auto if matches!(context.backend(), Backend::Cpu | Backend::Sim) => {
                Some(Dtype::Float32)
            }
            DtypeArg::Auto => None,
            DtypeArg::F32 => Some(Dtype::Float32),
            DtypeArg::F16 => Some(Dtype::Float16),
            DtypeArg::Bf16 => Some(Dtype::Bfloat16),
        };
        let expand_trellis = self.expand_trellis;
        Ok(Model::load(
            path,
            LoadOptions {
                dtype,
                expand_trellis,
            },
        )?)
    }

    /// Loads the model's tokenizer.
    pub fn load_tokenizer(&self) -> anyhow::Result<Tokenizer> {
        Tokenizer::load(&self.model).context("loading the tokenizer")
    }

    /// Name for reports: the file's or the folder's, and what was done to the weights.
    pub fn name(&self) -> String {
        let path = self
            .model
            .file_name()
            .unwrap_or(self.model.as_os_str())
            .to_string_lossy();
        match self.requantize {
            Some(SchemeArg(scheme)) => format!("{path} requantized to {scheme}"),
            None => path.into_owned(),
        }
    }
}

/// Name of a dtype as the command line writes it.
pub fn dtype_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Float16 => "f16",
        Dtype::Bfloat16 => "bf16",
        _ => "f32",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_parse_with_and_without_a_group_size() {
        let scheme = |text: &str| text.parse::<SchemeArg>().map(|scheme| scheme.0.to_string());
        assert_eq!(scheme("3").unwrap(), "3-bit g64");
        assert_eq!(scheme("4:32").unwrap(), "4-bit g32");
        assert!(scheme("7").unwrap_err().contains("2, 3, 4, 5, 6 or 8"));
        assert!(scheme("4:48").unwrap_err().contains("32, 64 or 128"));
        assert!(scheme("four").unwrap_err().contains("four"));
    }
}
