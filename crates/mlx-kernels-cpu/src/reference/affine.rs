//! Affine quantization and products with affine weights.

use crate::Floats;
use crate::affine::Problem;

/// Packs codes of `bits` bits as one little-endian bit stream, least significant bit first. Bits
/// of a code beyond its width are dropped; a last word that is not full ends in zeros.
#[must_use]
pub fn pack(codes: &[u32], bits: usize) -> Vec<u32> {
    let mut words = vec![0; (codes.len() * bits).div_ceil(32)];
    for (index, code) in codes.iter().enumerate() {
        for bit in 0..bits {
            let at = index * bits + bit;
            words[at / 32] |= (code >> bit & 1) << (at % 32);
        }
    }
    words
}

/// The first `count` codes of `bits` bits in `words`: the inverse of [`pack`].
///
/// # Panics
///
/// If `words` has fewer.
#[must_use]
pub fn unpack(words: &[u32], bits: usize, count: usize) -> Vec<u32> {
    let bit = |at: usize| words[at / 32] >> (at % 32) & 1;
    let code = |index: usize| (0..bits).map(|b| bit(index * bits + b) << b).sum();
    (0..count).map(code).collect()
}

/// What [`quantize`] gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantized {
    /// The codes, one a value.
    pub codes: Vec<u32>,
    /// The groups' scales, not yet rounded to a storage type.
    pub scales: Vec<f32>,
    /// The groups' biases, likewise.
    pub biases: Vec<f32>,
}

/// Quantizes each `group_size` consecutive values as MLX does on the CPU: in `f32`, one rounding
/// an operation, rounding to codes with ties to even. The end of a group's range that is larger
/// in magnitude is kept exactly, at code 0.
///
/// Scales and biases are to be rounded to the values' own type; codes do not depend on that.
///
/// # Panics
///
/// If `bits` is not in `1 ..= 16` or `values` is not whole groups.
#[must_use]
pub fn quantize(values: &[f32], bits: usize, group_size: usize) -> Quantized {
    assert!((1..=16).contains(&bits), "{bits} bits");
    assert!(
        values.len().is_multiple_of(group_size),
        "{} values",
        values.len()
    );
    let top = ((1_u32 << bits) - 1) as f32;
    let mut quantized = Quantized {
        codes: vec![],
        scales: vec![],
        biases: vec![],
    };
    for group in values.chunks_exact(group_size) {
        let (scale, bias) = group_parameters(group, top);
        let code = |value: &f32| ((value - bias) / scale).round_ties_even().clamp(0.0, top) as u32;
        quantized.codes.extend(group.iter().map(code));
        quantized.scales.push(scale);
        quantized.biases.push(bias);
    }
    quantized
}

/// Scale and bias of one group whose largest code is `top`.
fn group_parameters(group: &[f32], top: f32) -> (f32, f32) {
    const LEAST_STEP: f32 = 1e-7;
    let low = group.iter().copied().fold(f32::INFINITY, f32::min);
    let high = group.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let step = ((high - low) / top).max(LEAST_STEP);
    let (step, edge) = if low.abs() > high.abs() {
        (step, low)
    } else {
        (-step, high)
    };
    // Zero becomes a multiple of the step, so that zero weights stay zero.
    let steps = (edge / step).round_ties_even();
    if steps == 0.0 {
        (step, 0.0)
    } else {
        (edge / steps, edge)
    }
}

/// The weights `scale * q + bias`, `[n, k]`, rounded once, from the exact value to `f64`.
///
/// # Panics
///
/// If the arrays are not as long as `problem` says.
#[must_use]
pub fn dequantize(
    problem: &Problem,
    w: &[u32],
    scales: Floats<'_>,
    biases: Floats<'_>,
) -> Vec<f64> {
    let (scales, biases) = (widen(scales), widen(biases));
    let mut weights = Vec::with_capacity(problem.n() * problem.k());
    for row in 0..problem.n() {
        let words = &w[row * problem.words_per_row()..][..problem.words_per_row()];
        let codes = unpack(words, problem.bits(), problem.k());
        for (position, code) in codes.into_iter().enumerate() {
            let group = row * problem.groups_per_row() + position / problem.group_size();
            weights.push(scales[group].mul_add(f64::from(code), biases[group]));
        }
    }
    weights
}

/// A product and, for error bounds, the same product of magnitudes.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    /// `x * W^T`, `[rows, n]`.
    pub values: Vec<f64>,
    /// `|x| * |W|^T`, `[rows, n]`.
    pub magnitudes: Vec<f64>,
}

/// `x * W^T` in `f64`.
///
/// # Panics
///
/// If the arrays are not as long as `problem` says.
#[must_use]
pub fn matmul(
    problem: &Problem,
    x: Floats<'_>,
    w: &[u32],
    scales: Floats<'_>,
    biases: Floats<'_>,
) -> Product {
    let weights = dequantize(problem, w, scales, biases);
    let x = widen(x);
    let mut product = Product {
        values: vec![],
        magnitudes: vec![],
    };
    for x in x.chunks_exact(problem.k()) {
        for w in weights.chunks_exact(problem.k()) {
            product
                .values
                .push(x.iter().zip(w).map(|(x, w)| x * w).sum());
            product
                .magnitudes
                .push(x.iter().zip(w).map(|(x, w)| (x * w).abs()).sum());
        }
    }
    product
}

/// Every element, exactly.
fn widen(values: Floats<'_>) -> Vec<f64> {
    let mut wide = vec![0.0; values.len()];
    values.widen_into(0, &mut wide);
    wide.into_iter().map(f64::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_fill_words_from_the_low_end() {
        assert_eq!(pack(&[1, 2, 3, 4, 5, 6, 7, 0], 4), [0x0765_4321]);
        // The eleventh 3-bit code lies in two words.
        let codes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
        assert_eq!(pack(&codes, 3), [0xc000_0000, 1]);
        assert_eq!(unpack(&[0xc000_0000, 1], 3, 11), codes);
    }

    #[test]
    fn every_width_comes_back() {
        for bits in 1..=8 {
            let codes: Vec<u32> = (0..64).map(|i| i * 37 % (1 << bits)).collect();
            assert_eq!(unpack(&pack(&codes, bits), bits, 64), codes);
        }
    }

    #[test]
    fn the_larger_end_is_exact_and_zero_stays_zero() {
        let values: Vec<f32> = (0..32).map(|i| i as f32 / 8.0 - 1.0).collect();
        let quantized = quantize(&values, 4, 32);
        assert!(quantized.scales[0] < 0.0);
        assert_eq!(quantized.biases, [2.875]);
        assert_eq!(quantized.codes[31], 0);
        let at_zero = quantized.scales[0] * quantized.codes[8] as f32 + quantized.biases[0];
        assert!(at_zero.abs() < 1e-6, "{at_zero}");
    }

    #[test]
    fn a_group_of_zeros_keeps_the_least_step() {
        let quantized = quantize(&[0.0; 32], 4, 32);
        assert_eq!((quantized.scales[0], quantized.biases[0]), (-1e-7, 0.0));
        assert_eq!(quantized.codes, [0; 32]);
    }
}
