//! The computed code "1MAD": one multiply-add and a sum of bytes turn a state into an integer that is nearly
//! Gaussian, and a division makes its variance one (QTIP, Tseng et al. 2024, section 3.1.1).
//!
//! The variants of the division exist because kernels choose between them; here they are the referee of those kernels.

/// Multiplier of the code.
pub const MULTIPLIER: u32 = 34_038_481;
/// Increment of the code.
pub const INCREMENT: u32 = 76_625_530;
/// Mean of the sum of four bytes, subtracted from it.
pub const OFFSET: i32 = 510;
/// Divisor `d` that gives the values unit variance; exact in f32.
pub const DIVISOR: f32 = 147.800_54;
/// `rho`, the f32 nearest to `1 / d`.
pub const RECIPROCAL: f32 = f32::from_bits(0x3BDD_B447);

/// The integer code `y(s)` of a state, `-510..=510`.
#[must_use]
pub fn integer_code(state: u16) -> i32 {
    let z = MULTIPLIER
        .wrapping_mul(u32::from(state))
        .wrapping_add(INCREMENT);
    z.to_le_bytes().into_iter().map(i32::from).sum::<i32>() - OFFSET
}

/// `y / d` as an f64 division rounded to f32: the definition of a value.
#[must_use]
pub fn exact(y: i32) -> f32 {
    (f64::from(y) / f64::from(DIVISOR)) as f32
}

/// `y / d` as one f32 division; equals [`exact`] for every code.
#[must_use]
pub fn divided(y: i32) -> f32 {
    y as f32 / DIVISOR
}

/// `y * rho` corrected by one Newton step; equals [`exact`] for every code.
#[must_use]
pub fn refined(y: i32) -> f32 {
    let y = y as f32;
    let quotient = y * RECIPROCAL;
    let remainder = (-quotient).mul_add(DIVISOR, y);
    remainder.mul_add(RECIPROCAL, quotient)
}

/// `y * rho`; one unit in the last place off [`exact`] for 398 of the 1021 codes.
#[must_use]
pub fn unrefined(y: i32) -> f32 {
    y as f32 * RECIPROCAL
}

/// `y` as f32 without an integer conversion: the mantissa of `2^23 + y + 510`, less the offset.
#[must_use]
pub fn lifted(y: i32) -> f32 {
    const BIAS: f32 = 8_388_608.0 + OFFSET as f32;
    f32::from_bits(0x4B00_0000 + (y + OFFSET) as u32) - BIAS
}

/// The integer codes of all `2^state_bits` states (`state_bits` at most 16; more is cut to 16).
#[must_use]
pub fn integer_codes(state_bits: u32) -> Vec<i16> {
    (0..1_u32 << state_bits.min(16))
        .map(|s| integer_code(s as u16) as i16)
        .collect()
}

/// The exact values of all `2^state_bits` states (`state_bits` at most 16; more is cut to 16).
#[must_use]
pub fn values(state_bits: u32) -> Vec<f32> {
    integer_codes(state_bits)
        .into_iter()
        .map(|y| exact(i32::from(y)))
        .collect()
}

/// Root mean square of [`values`], 1.0041072 at 12 state bits.
#[must_use]
pub fn rms(state_bits: u32) -> f64 {
    let values = values(state_bits);
    let sum: f64 = values.iter().map(|&v| f64::from(v).powi(2)).sum();
    (sum / values.len() as f64).sqrt()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the constants and variants are exact")]
mod tests {
    use super::*;
    use crate::fnv1a;

    #[test]
    fn integer_codes_have_the_published_statistics() {
        let first: Vec<i32> = (0..16).map(integer_code).collect();
        let expected = [
            -185, -124, -63, -2, 59, -135, -74, -13, -207, 109, -85, -24, 37, -157, 159, -290,
        ];
        assert_eq!(first, expected);
        assert_eq!(
            [integer_code(1365), integer_code(2048), integer_code(4095)],
            [195, 32, 188]
        );

        let codes = integer_codes(12);
        assert_eq!(
            (codes.iter().min(), codes.iter().max()),
            (Some(&-448), Some(&454))
        );
        assert_eq!(codes.iter().map(|&y| i64::from(y)).sum::<i64>(), -4300);
        assert_eq!(
            codes.iter().map(|&y| i64::from(y).pow(2)).sum::<i64>(),
            90_213_626
        );
        assert_eq!(
            codes
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len(),
            713
        );
        assert_eq!(
            fnv1a(codes.iter().flat_map(|y| y.to_le_bytes())),
            0x4351_AF87
        );
        assert!((rms(12) - 1.004_107_204_225_88).abs() < 1e-14);
    }

    #[test]
    fn constants_have_the_published_bits() {
        assert_eq!(DIVISOR.to_bits(), 0x4313_CCF0);
        assert_eq!(f64::from(DIVISOR), 147.800_537_109_375);
        assert_eq!(RECIPROCAL, (1.0 / f64::from(DIVISOR)) as f32);
    }

    #[test]
    fn variants_agree_as_stated() {
        let mut off_by_one = 0;
        for y in -510..=510 {
            assert_eq!(divided(y).to_bits(), exact(y).to_bits(), "y = {y}");
            assert_eq!(refined(y).to_bits(), exact(y).to_bits(), "y = {y}");
            assert_eq!(lifted(y), y as f32);
            assert_eq!((lifted(y) * RECIPROCAL).to_bits(), unrefined(y).to_bits());
            let ulps = unrefined(y).to_bits().abs_diff(exact(y).to_bits());
            assert!(ulps <= 1);
            off_by_one += ulps;
        }
        assert_eq!(off_by_one, 398);
        assert_eq!(exact(0).to_bits(), 0);
    }

    #[test]
    fn two_lane_sum_equals_the_byte_sum() {
        for state in 0..=u16::MAX {
            let z = MULTIPLIER
                .wrapping_mul(u32::from(state))
                .wrapping_add(INCREMENT);
            let lanes = (z & 0x00FF_00FF) + ((z >> 8) & 0x00FF_00FF);
            assert_eq!(
                (lanes & 0xFFFF) as i32 + (lanes >> 16) as i32 - OFFSET,
                integer_code(state)
            );
        }
    }
}
