//! What MLPs in trellis codes are asked to do for few rows.

use std::fmt;
use std::str::FromStr;

/// Which kernels an MLP takes for few rows. The two differ in the last bits of their results, within
/// bfloat16's accuracy: a model's output is to be compared (`mlxk kl`) before the policy is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MlpPolicy {
    /// Gate and up in one kernel for up to 4 rows, with unrounded float32 weights.
    #[default]
    Packed,
    /// Integer codes, with the scale applied to sums, for up to 8 rows: the widths at which drafts
    /// are verified. From 4 rows on (down) and 5 (gate and up) on the matrix unit.
    VerifyWidth,
}

impl MlpPolicy {
    const NAMES: [(&'static str, Self); 2] = [
        ("packed", Self::Packed),
        ("verify-width", Self::VerifyWidth),
    ];
}

impl fmt::Display for MlpPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, policy)| policy == self);
        f.pad(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for MlpPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|&(_, policy)| policy)
            .ok_or_else(|| format!("{text:?} is not a policy: expected packed or verify-width"))
    }
}
