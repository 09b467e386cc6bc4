//! The four ways of running an operation, and which of them this machine has.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// A way of running an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Backend {
    /// Metal kernels on an Apple GPU.
    Metal,
    /// The same kernels on an NVIDIA GPU, under MLX's CUDA back end.
    Cuda,
    /// Rust code on the CPU, as lazy MLX nodes.
    Cpu,
    /// The Metal kernels run lane by lane on the CPU: for tests and checks, not for speed.
    Sim,
}

impl Backend {
    /// All of them, fastest first.
    pub const ALL: [Self; 4] = [Self::Metal, Self::Cuda, Self::Cpu, Self::Sim];

    /// The best back end of this machine: Metal, else CUDA, else the CPU.
    pub fn detect() -> Self {
        if metal_is_available() {
            Self::Metal
        } else if cuda_is_available() {
            Self::Cuda
        } else {
            Self::Cpu
        }
    }

    /// Whether MLX can run this back end here. The CPU ones always can.
    pub fn is_available(self) -> bool {
        match self {
            Self::Metal => metal_is_available(),
            Self::Cuda => cuda_is_available(),
            Self::Cpu | Self::Sim => true,
        }
    }

    /// Whether its operations run on a GPU stream.
    pub fn is_gpu(self) -> bool {
        matches!(self, Self::Metal | Self::Cuda)
    }

    /// The name used on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Metal => "metal",
            Self::Cuda => "cuda",
            Self::Cpu => "cpu",
            Self::Sim => "sim",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|backend| backend.name() == text)
            .ok_or_else(|| Error::UnknownBackend {
                found: text.to_owned(),
            })
    }
}

fn metal_is_available() -> bool {
    let mut available = false;
    // SAFETY: writes one bool.
    unsafe { mlx_sys::mlx_metal_is_available(&raw mut available) == 0 && available }
}

fn cuda_is_available() -> bool {
    let mut available = false;
    // SAFETY: writes one bool.
    unsafe { mlx_sys::mlx_cuda_is_available(&raw mut available) == 0 && available }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for backend in Backend::ALL {
            assert_eq!(backend.name().parse::<Backend>().unwrap(), backend);
        }
    }

    #[test]
    fn an_unknown_name_is_named() {
        let error = "vulkan".parse::<Backend>().unwrap_err().to_string();
        assert!(
            error.contains("vulkan") && error.contains("metal, cuda, cpu or sim"),
            "{error}"
        );
    }

    #[test]
    fn the_detected_back_end_is_available() {
        assert!(Backend::detect().is_available());
    }
}
