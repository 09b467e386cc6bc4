//! What is verified.

use std::fmt;
use std::str::FromStr;

use mlx_kernels::Backend;

/// A kernel, or several that make up one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// The affine product on ordinary lanes.
    AffineRows,
    /// The affine product on an NVIDIA GPU's tensor cores.
    AffineTensor,
    /// The affine product on the matrix unit.
    AffineMma,
    /// The affine product on the matrix unit, K split.
    AffineSplitMma,
    /// The affine product by the CPU's SIMD code.
    AffineCpu,
    /// Residual addition with RMS norm.
    AddRmsNorm,
    /// The greedy token.
    NormalizedArgmax,
    /// The vocabulary mask.
    TokenBitmask,
    /// A weight decoded from its trellis codes.
    TrellisExpand,
    /// The same in bfloat16, four weights a thread.
    TrellisExpand4,
    /// The product of few rows with trellis codes along the inputs.
    TrellisReduce,
    /// The same with two weights, joined by a `SwiGLU`.
    TrellisGateup,
    /// The same from sums of integer codes.
    TrellisFactoredGateup,
    /// The same for any number of rows on the matrix unit.
    TrellisGateupMma,
    /// The product of few rows with trellis codes along the outputs.
    TrellisScatter,
    /// The same with 3-bit codes, every lane at work.
    TrellisScatterBalanced3,
    /// The same from sums of integer codes.
    TrellisDownFactored,
    /// The product with trellis codes along the outputs on the matrix unit, up to 8 rows.
    TrellisDownMma,
    /// The same for any number of rows.
    TrellisDownMmaWide,
    /// The product of a prompt's rows with trellis codes along the inputs, in tiles.
    TrellisPrefillTiled,
    /// The same with codes along the outputs, in parts.
    TrellisPrefillSplitk,
    /// The product of a prompt's few rows with trellis codes along the inputs, on ordinary lanes.
    TrellisPrefillWide,
    /// The product with trellis codes by the CPU's SIMD code.
    TrellisCpu,
}

impl Kernel {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::AffineRows,
        Self::AffineTensor,
        Self::AffineMma,
        Self::AffineSplitMma,
        Self::AffineCpu,
        Self::AddRmsNorm,
        Self::NormalizedArgmax,
        Self::TokenBitmask,
        Self::TrellisExpand,
        Self::TrellisExpand4,
        Self::TrellisReduce,
        Self::TrellisGateup,
        Self::TrellisFactoredGateup,
        Self::TrellisGateupMma,
        Self::TrellisScatter,
        Self::TrellisScatterBalanced3,
        Self::TrellisDownFactored,
        Self::TrellisDownMma,
        Self::TrellisDownMmaWide,
        Self::TrellisPrefillTiled,
        Self::TrellisPrefillSplitk,
        Self::TrellisPrefillWide,
        Self::TrellisCpu,
    ];

    /// The name on command lines and in tables: the shader's, where it is one.
    pub fn name(self) -> &'static str {
        match self {
            Self::AffineRows => "affine_rows",
            Self::AffineTensor => "affine_tensor",
            Self::AffineMma => "affine_mma",
            Self::AffineSplitMma => "affine_split_mma",
            Self::AffineCpu => "affine_cpu",
            Self::AddRmsNorm => "add_rms_norm",
            Self::NormalizedArgmax => "normalized_argmax",
            Self::TokenBitmask => "token_bitmask",
            Self::TrellisExpand => "trellis_expand",
            Self::TrellisExpand4 => "trellis_expand4",
            Self::TrellisReduce => "trellis_reduce",
            Self::TrellisGateup => "trellis_gateup",
            Self::TrellisFactoredGateup => "trellis_factored_gateup",
            Self::TrellisGateupMma => "trellis_gateup_mma",
            Self::TrellisScatter => "trellis_scatter",
            Self::TrellisScatterBalanced3 => "trellis_scatter_balanced3",
            Self::TrellisDownFactored => "trellis_down_factored",
            Self::TrellisDownMma => "trellis_down_mma",
            Self::TrellisDownMmaWide => "trellis_down_mma_wide",
            Self::TrellisPrefillTiled => "trellis_prefill_tiled",
            Self::TrellisPrefillSplitk => "trellis_prefill_splitk",
            Self::TrellisPrefillWide => "trellis_prefill_wide",
            Self::TrellisCpu => "trellis_cpu",
        }
    }

    /// Whether there is such a kernel on `backend`. Norm and sampling are operations everywhere;
    /// how they are computed is the back end's affair.
    pub fn runs_on(self, backend: Backend) -> bool {
        match self {
            Self::AffineTensor => backend == Backend::Cuda,
            Self::AffineCpu | Self::TrellisCpu => backend == Backend::Cpu,
            Self::AddRmsNorm | Self::NormalizedArgmax | Self::TokenBitmask => true,
            _ => backend != Backend::Cpu,
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .copied()
            .find(|kernel| kernel.name() == text)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|kernel| kernel.name()).collect();
                let known = known.join(", ");
                format!("{text:?} is not a kernel: expected one of {known}")
            })
    }
}
