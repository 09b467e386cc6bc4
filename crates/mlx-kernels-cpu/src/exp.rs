//! The exponential, in operations that loops vectorize.

/// Below this the result rounds to 0, above `HIGHEST` to infinity.
const LOWEST: f32 = -104.0;
const HIGHEST: f32 = 89.0;

/// Adding this rounds to a whole number, which the low bits of the sum then hold.
const ROUNDER: f32 = 12_582_912.0;

/// ln 2 in two parts; the first has 9 bits, so that its product with an exponent is exact.
const LN2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);

/// Coefficients of `(e^r - 1 - r) / r^2` for `|r| <= ln 2 / 2`, highest first (Cephes, `expf`).
const SERIES: [f32; 6] = [
    1.987_569_1e-4,
    1.398_199_9e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_5e-1,
    0.5,
];

/// `e^x` to about 1 part in 10^7: 0, infinity and NaN where `f32::exp` gives them. Without fused
/// operations, so that every level gives the same bits.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Comparisons, since `clamp` and `max` are not sure to keep NaN.
    let x = if x < LOWEST { LOWEST } else { x };
    let x = if x > HIGHEST { HIGHEST } else { x };
    let rounded = x * std::f32::consts::LOG2_E + ROUNDER;
    let whole = rounded - ROUNDER;
    let r = (x - whole * LN2.0) - whole * LN2.1;
    let series = SERIES.iter().fold(0.0, |sum, c| sum * r + c);
    let power = series * (r * r) + r + 1.0;
    // Two factors, since one alone cannot reach denormal results, nor overflow.
    let exponent = rounded.to_bits().wrapping_sub(ROUNDER.to_bits()) as i32;
    let half = exponent >> 1;
    power * power_of_two(half) * power_of_two(exponent.wrapping_sub(half))
}

/// `2^exponent` for exponents of normal numbers.
#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits((exponent.wrapping_add(127) << 23) as u32)
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn agrees_with_float64() {
        for step in -880_000..=887_000 {
            let x = step as f32 / 10_000.0;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs() / expected;
            // Near the lowest normal number a unit in the last place is a larger share.
            assert!(
                error < if x < -87.0 { 1e-6 } else { 1.5e-7 },
                "{x}: {error:e}"
            );
        }
    }

    #[test]
    fn ends_and_specials_are_exact() {
        assert_eq!([exp(0.0), exp(-0.0)], [1.0, 1.0]);
        assert_eq!([exp(-104.0), exp(-1e30), exp(f32::NEG_INFINITY)], [0.0; 3]);
        assert_eq!(
            [exp(88.8), exp(1e30), exp(f32::INFINITY)],
            [f32::INFINITY; 3]
        );
        assert!(exp(88.7).is_finite() && exp(-103.0) > 0.0);
        assert!(exp(f32::NAN).is_nan() && exp(-f32::NAN).is_nan());
    }
}
