//! The operations as mlx-rs's users write them: arguments by reference, MLX's error type.
//!
//! [`quantized_matmul`] is a drop-in replacement for `mlx_rs::ops::quantized_matmul`; the others do
//! in one pass what takes several operations of MLX's.

use mlx_rs::Array;
use mlx_rs::error::Result;

use crate::{affine, norm, sampling};

/// Group size where none is given, as in MLX.
const DEFAULT_GROUP_SIZE: i32 = 64;
/// Bits where none are given, as in MLX.
const DEFAULT_BITS: i32 = 4;

/// The product of `x` with an affine-quantized matrix, as `mlx_rs::ops::quantized_matmul`, by the
/// best kernel for this device and this shape.
///
/// With `transpose` true it computes `x * W^T`: x `[..., K]`, w uint32 `[N, K * bits / 32]`, scales
/// and biases `[N, K / group_size]`, result `[..., N]`. Defaults: `transpose` false, `group_size`
/// 64, `bits` 4. What no kernel of this crate takes is MLX's own operation.
///
/// # Errors
///
/// When an argument's shape, dtype or value does not fit; the message names it.
///
/// # Examples
///
/// ```
/// use mlx_kernels::ops::quantized_matmul; // was: mlx_rs::ops::quantized_matmul
/// use mlx_rs::{Array, ops::quantize};
///
/// let weight = Array::from_slice(&[0.5_f32; 128 * 64], &[128, 64]);
/// let (w, scales, biases) = quantize(&weight, 64, 4)?;
/// let x = Array::from_slice(&[1.0_f32; 64], &[1, 64]);
/// let y = quantized_matmul(&x, &w, &scales, &biases, true, 64, 4)?;
/// assert_eq!(y.shape(), [1, 128]);
/// assert_eq!(y.as_slice::<f32>()[0], 32.0);
/// # Ok::<(), mlx_rs::error::Exception>(())
/// ```
pub fn quantized_matmul<'a>(
    x: impl AsRef<Array>,
    w: impl AsRef<Array>,
    scales: impl AsRef<Array>,
    biases: impl Into<Option<&'a Array>>,
    transpose: impl Into<Option<bool>>,
    group_size: impl Into<Option<i32>>,
    bits: impl Into<Option<i32>>,
) -> Result<Array> {
    let planned = affine::quantized_matmul(
        x.as_ref(),
        w.as_ref(),
        scales.as_ref(),
        biases.into(),
        transpose.into().unwrap_or(false),
        group_size.into().unwrap_or(DEFAULT_GROUP_SIZE),
        bits.into().unwrap_or(DEFAULT_BITS),
    )?;
    Ok(planned.result)
}

/// `x + update` and its RMS norm in one pass, both of x's shape and dtype.
///
/// x and update `[..., D]`, weight `[D]`, all of one float type; see [`crate::norm::add_rms_norm`].
///
/// # Errors
///
/// When an argument's shape, dtype or value does not fit; the message names it.
pub fn add_rms_norm(
    x: impl AsRef<Array>,
    update: impl AsRef<Array>,
    weight: impl AsRef<Array>,
    eps: f32,
) -> Result<(Array, Array)> {
    let sums = norm::add_rms_norm(x.as_ref(), update.as_ref(), weight.as_ref(), eps)?;
    Ok((sums.residual, sums.normalized))
}

/// The greedy token of each row by rounded log-probability: logits `[..., V]` to uint32 `[...]`;
/// see [`crate::sampling::normalized_argmax`].
///
/// # Errors
///
/// Those of the stock operations, and of launching a kernel.
pub fn normalized_argmax(logits: impl AsRef<Array>) -> Result<Array> {
    Ok(sampling::normalized_argmax(logits.as_ref())?)
}

/// Logits `[..., V]` with the ids that `bits` forbids at minus infinity; see
/// [`crate::sampling::apply_token_bitmask`].
///
/// # Errors
///
/// When an argument's shape or dtype does not fit; the message names it.
pub fn apply_token_bitmask(logits: impl AsRef<Array>, bits: impl AsRef<Array>) -> Result<Array> {
    Ok(sampling::apply_token_bitmask(
        logits.as_ref(),
        bits.as_ref(),
    )?)
}
