//! An orthogonal change of basis of the residual stream.
//!
//! RMS norms without weights commute with it, so a model whose norm weights are folded into the matrices behind them
//! computes the same when every matrix that reads the stream is multiplied by `R` from the right and every matrix that
//! writes to it by `R^T` from the left (`QuaRot`, Ashkboos et al. 2024). In the new basis no channel stands out, which
//! is what trellis codes want: they take weights for Gaussian.
//!
//! The embedding table and the head keep the model's own basis: the stream is rotated behind the one and turned back
//! before the final norm of the other. Folding `R` into them would untie tied tables, and code both anew.

use mlx_rs::Array;
use mlx_rs::ops::ones_like;

use crate::checkpoint::Checkpoint;
use crate::error::{ModelError, Result};
use crate::random::Random;
use crate::statistics::Site;

/// Names of the rotation's tensors.
pub(crate) const TENSORS: [&str; 2] = ["model.rotation.signs", "model.rotation.mix"];

/// `R = diag(signs) (M (x) H)`, with the Hadamard matrix `H` of the width's power of two and an orthogonal `M` of its
/// odd part: channel `i p + j` is row `i`, column `j` of the matrix that `M` and `H` act on, `p` the power of two.
#[derive(Debug, Clone)]
pub(crate) struct Rotation {
    /// 1 and -1, `[width]`.
    signs: Array,
    /// `M`, `[odd, odd]`.
    mix: Array,
    /// Ones, `[width]`: the weights of a norm that has none.
    unit: Array,
}

impl Rotation {
    /// A rotation of random signs and a random `M`: the same for the same seed, on every machine.
    pub(crate) fn random(width: i32, seed: u64) -> Self {
        let odd = odd_part(width);
        let mut random = Random::new(seed);
        let signs: Vec<f32> = (0..width)
            .map(|_| if random.uniform() < 0.5 { -1.0 } else { 1.0 })
            .collect();
        let mix = orthogonal(odd as usize, &mut random);
        Self {
            signs: Array::from_slice(&signs, &[width]),
            mix: Array::from_slice(&mix, &[odd, odd]),
            unit: Array::from_slice(&vec![1.0_f32; width as usize], &[width]),
        }
    }

    /// Takes the rotation of a checkpoint's stream out; `None` if it has none.
    pub(crate) fn of(checkpoint: &mut Checkpoint) -> Result<Option<Self>> {
        if !checkpoint.config.residual_rotation {
            return Ok(None);
        }
        let width = checkpoint.config.hidden_size;
        let odd = odd_part(width);
        let signs = checkpoint.float(TENSORS[0], &[width])?;
        let mix = checkpoint.float(TENSORS[1], &[odd, odd])?;
        let unit = ones_like(&signs)?;
        Ok(Some(Self { signs, mix, unit }))
    }

    /// The tensors that are stored.
    pub(crate) fn arrays(&self) -> [&Array; 2] {
        [&self.signs, &self.mix]
    }

    /// Ones, `[width]`: the weights of a norm that has none.
    pub(crate) fn unit(&self) -> &Array {
        &self.unit
    }

    /// `x R`, along the last dimension.
    pub(crate) fn apply(&self, x: &Array) -> Result<Array> {
        let signed = x.multiply(&self.signs)?;
        self.mix
            .matmul(self.hadamard(&signed)?)?
            .reshape(x.shape())
            .map_err(Into::into)
    }

    /// `x R^T`, along the last dimension: undoes [`Self::apply`].
    pub(crate) fn undo(&self, x: &Array) -> Result<Array> {
        let mixed = self.mix.t().matmul(self.grid(x)?)?;
        let plain = self
            .hadamard(&mixed.reshape(x.shape())?)?
            .reshape(x.shape())?;
        Ok(plain.multiply(&self.signs)?)
    }

    /// `[.., width]` as `[.., odd part, power of two]`.
    fn grid(&self, x: &Array) -> Result<Array> {
        let odd = self.mix.dim(0);
        let mut shape = x.shape().to_vec();
        shape.pop();
        shape.extend([odd, x.dim(-1) / odd]);
        Ok(x.reshape(&shape)?)
    }

    /// The grid with `H` applied to each row.
    fn hadamard(&self, x: &Array) -> Result<Array> {
        let grid = self.grid(x)?;
        let scale = (grid.dim(-1) as f32).sqrt().recip();
        Ok(grid.hadamard_transform(scale)?)
    }
}

fn odd_part(width: i32) -> i32 {
    width >> width.trailing_zeros()
}

/// A random orthogonal matrix, row-major: normal numbers, made orthonormal row by row (Gram and Schmidt, twice for the
/// rounding).
fn orthogonal(size: usize, random: &mut Random) -> Vec<f32> {
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(size);
    for _ in 0..size {
        let mut row: Vec<f64> = (0..size).map(|_| random.normal()).collect();
        for _ in 0..2 {
            for other in &rows {
                let dot: f64 = row.iter().zip(other).map(|(a, b)| a * b).sum();
                row.iter_mut().zip(other).for_each(|(a, b)| *a -= dot * b);
            }
        }
        let norm = row.iter().map(|a| a * a).sum::<f64>().sqrt();
        rows.push(row.into_iter().map(|a| a / norm).collect());
    }
    rows.into_iter().flatten().map(|a| a as f32).collect()
}

/// Rewrites a checkpoint's blocks for a rotated residual stream. Lazily: a matrix is dequantized and rotated when it is
/// evaluated.
pub(crate) fn rotate(checkpoint: &mut Checkpoint, seed: u64) -> Result<()> {
    let config = checkpoint.config.clone();
    if config.residual_rotation {
        return Err(ModelError::invalid(
            "model to rotate",
            "rotated already",
            "one in its own basis; leave the rotation out to keep the one that it has",
        ));
    }
    let rotation = Rotation::random(config.hidden_size, seed);
    for layer in 0..config.layers {
        let mut take_gain = |norm: &str| {
            let name = format!("model.layers.{layer}.{norm}.weight");
            let gain = checkpoint.float(&name, &[config.hidden_size])?;
            checkpoint.insert(name, ones_like(&gain)?);
            Ok::<_, ModelError>(gain)
        };
        let attention_gain = take_gain("input_layernorm")?;
        let mlp_gain = take_gain("post_attention_layernorm")?;
        for (kind, shape) in config.projections() {
            let path = kind.path(layer);
            let gain = match Site::of(kind) {
                Some(Site::Attention) => &attention_gain,
                Some(Site::Mlp) => &mlp_gain,
                _ => {
                    checkpoint
                        .rewrite(&path, shape, |weight| Ok(rotation.apply(&weight.t())?.t()))?;
                    let bias = format!("{path}.bias");
                    if checkpoint.contains(&bias) {
                        let values = checkpoint.float(&bias, &shape[..1])?;
                        checkpoint.insert(bias, rotation.apply(&values)?);
                    }
                    continue;
                }
            };
            checkpoint.rewrite(&path, shape, |weight| {
                rotation.apply(&weight.multiply(gain)?)
            })?;
        }
    }
    for (name, tensor) in TENSORS.into_iter().zip(rotation.arrays()) {
        checkpoint.insert(name.into(), tensor.clone());
    }
    checkpoint.config.residual_rotation = true;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(a: &Array, b: &Array) -> f32 {
        let difference = a.subtract(b).unwrap().abs().unwrap();
        difference.max(None).unwrap().item_exact::<f32>()
    }

    #[test]
    fn rotations_of_any_width_are_orthogonal() {
        for width in [1, 3, 64, 96, 576] {
            let rotation = Rotation::random(width, 7);
            let identity = Array::eye::<f32>(width, None, None).unwrap();
            let matrix = rotation.apply(&identity).unwrap();
            let product = matrix.matmul(matrix.t()).unwrap();
            assert!(apart(&product, &identity) < 1e-5, "{width}");
            let back = rotation.undo(&matrix).unwrap();
            assert!(apart(&back, &identity) < 1e-5, "{width}");
        }
    }

    #[test]
    fn seeds_choose_rotations() {
        let tensors = |seed| {
            let rotation = Rotation::random(96, seed);
            rotation
                .arrays()
                .map(|array| array.to_vec_exact::<f32>().unwrap())
        };
        assert_eq!(tensors(1), tensors(1));
        assert_ne!(tensors(1), tensors(2));
    }
}
