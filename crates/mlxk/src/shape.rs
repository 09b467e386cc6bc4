//! Shapes of weights on the command line.

use std::fmt;
use std::str::FromStr;

/// A weight's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Outputs.
    pub n: i32,
    /// Inner width.
    pub k: i32,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once('x')
            .and_then(|(n, k)| {
                Some(Self {
                    n: n.parse().ok()?,
                    k: k.parse().ok()?,
                })
            })
            .filter(|shape| shape.n > 0 && shape.k > 0)
            .ok_or_else(|| {
                format!("{text:?} is not a shape: expected outputs x inputs, as 17408x5120")
            })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.n, self.k)
    }
}

impl Shape {
    /// Refuses an inner width that is not whole groups.
    pub fn check_groups(self, group_size: i32) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.k % group_size == 0,
            "{self}: the inner width is not a multiple of the group size, {group_size}"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_parse_and_nonsense_is_named() {
        assert_eq!(
            "17408x5120".parse::<Shape>().unwrap(),
            Shape { n: 17408, k: 5120 }
        );
        for text in ["", "x", "8", "8x", "0x8", "-8x64", "8x64x2"] {
            assert!(
                text.parse::<Shape>()
                    .unwrap_err()
                    .contains("outputs x inputs"),
                "{text:?}"
            );
        }
    }

    #[test]
    fn widths_must_be_whole_groups() {
        let shape = Shape { n: 8, k: 96 };
        shape.check_groups(32).unwrap();
        let error = shape.check_groups(64).unwrap_err().to_string();
        assert!(error.contains("8x96") && error.contains("64"), "{error}");
    }
}
