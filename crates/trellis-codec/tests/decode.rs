//! The host decoder against digests of an independent implementation.

#![allow(clippy::float_cmp, reason = "decoding is exact")]

use trellis_codec::{Axis, Contract, Error, Format, Geometry, Layout};
use trellis_codec::{codebook, decode, decode_states, factored_scales, interleave};

/// One row per k: first word of the fixture, digests of the states, the f32 and the bf16 weights, first weights.
const GOLDEN: [(u32, u32, u32, u32, [f32; 3]); 8] = [
    (
        0x3f9b_b4ff,
        0x834e_7fe3,
        0x97bf_31b3,
        0x8cef_d4c1,
        [0.301_081_45, -0.896_478_5, -0.098_105_19],
    ),
    (
        0x3fb5_1b0c,
        0xc35f_480d,
        0x19c4_5df9,
        0xcd9c_af3f,
        [0.216_508_02, 0.473_611_27, -0.341_676_7],
    ),
    (
        0x3fce_8119,
        0x4104_9f1f,
        0x38b7_5e04,
        0xd9e9_c7ab,
        [1.001_349_6, 0.219_890_95, 0.392_420_77],
    ),
    (
        0x3fe7_e726,
        0x62c0_d815,
        0x6245_1eea,
        0xd12a_5690,
        [0.324_762_02, -0.717_182_76, 0.456_696_57],
    ),
    (
        0x4001_4d33,
        0x15aa_7925,
        0x6ea6_ad0a,
        0x738e_c650,
        [-0.997_966_6, 0.439_781_9, -0.169_146_88],
    ),
    (
        0x401a_b340,
        0xaa77_f397,
        0x399d_d6da,
        0x2d3c_8061,
        [-0.284_166_75, 0.108_254_01, -0.382_271_95],
    ),
    (
        0x4034_194d,
        0x5e80_d069,
        0xdf47_9d5e,
        0xddda_e40e,
        [-0.470_228_34, 0.047_361_128, -0.456_696_57],
    ),
    (
        0x404d_7f5a,
        0x157d_2f25,
        0x6c9f_1241,
        0x1a2d_9949,
        [-0.067_658_75, -0.094_722_256, -0.226_656_82],
    ),
];

const SCALES: [f32; 4] = [0.5, 1.0, 2.0, 0.25];

/// Any bit pattern is a valid code; these come from a linear congruential generator.
fn fixture(bits: u32) -> (Geometry, Vec<u32>) {
    let format = Format::new(bits, 12, 256).unwrap();
    let geometry = Geometry::new(format, Axis::Input, Layout::Rows, 4, 512).unwrap();
    let mut word = 31 + bits;
    let codes = (0..geometry.words())
        .map(|_| {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            word
        })
        .collect();
    (geometry, codes)
}

fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0x811C_9DC5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[test]
fn digests_of_every_width() {
    for (bits, golden) in (1..).zip(GOLDEN) {
        let (geometry, codes) = fixture(bits);
        assert_eq!(codes[0], golden.0);
        let states = decode_states(&geometry, &codes).unwrap();
        assert_eq!(
            fnv1a(states.iter().flat_map(|s| s.to_le_bytes())),
            golden.1,
            "states, k = {bits}"
        );
        let exact = decode(&geometry, &codes, &SCALES, Contract::Exact).unwrap();
        assert_eq!(
            fnv1a(exact.iter().flat_map(|w| w.to_le_bytes())),
            golden.2,
            "weights, k = {bits}"
        );
        assert_eq!(exact[..3], golden.4);
        let rounded = decode(&geometry, &codes, &SCALES, Contract::ExactBf16).unwrap();
        let bytes = rounded
            .iter()
            .flat_map(|w| half::bf16::from_f32(*w).to_le_bytes());
        assert_eq!(fnv1a(bytes), golden.3, "bf16 weights, k = {bits}");
    }
}

#[test]
fn contracts_are_what_they_say() {
    let (geometry, codes) = fixture(3);
    let states = decode_states(&geometry, &codes).unwrap();
    let unrefined = decode(&geometry, &codes, &SCALES, Contract::Unrefined).unwrap();
    let factored = decode(&geometry, &codes, &SCALES, Contract::Factored).unwrap();
    for (i, &state) in states.iter().enumerate() {
        let y = codebook::integer_code(state);
        assert_eq!(factored[i], y as f32);
        assert_eq!(
            unrefined[i].to_bits(),
            (codebook::unrefined(y) * SCALES[i / 512]).to_bits()
        );
    }
    assert_eq!(factored_scales(&[2.0]), [2.0 * codebook::RECIPROCAL]);
}

#[test]
fn scales_of_any_sign_and_zero() {
    let (geometry, codes) = fixture(2);
    let weights = decode(
        &geometry,
        &codes,
        &[0.0, -1.0, 1.0, -511.0],
        Contract::Exact,
    )
    .unwrap();
    let unit = decode(&geometry, &codes, &[1.0; 4], Contract::Exact).unwrap();
    assert!(weights[..512].iter().all(|&w| w == 0.0));
    assert!(
        weights[512..1024]
            .iter()
            .zip(&unit[512..1024])
            .all(|(w, u)| *w == -u)
    );
    assert!(
        weights[1536..]
            .iter()
            .zip(&unit[1536..])
            .all(|(w, u)| *w == u * -511.0)
    );
}

#[test]
fn both_layouts_decode_alike() {
    let (input, codes) = fixture(3);
    let rowwise = Geometry::new(input.format(), Axis::Output, Layout::Rows, 4, 512).unwrap();
    let (paired, moved) = interleave(&rowwise, &codes).unwrap();
    assert_eq!(
        decode_states(&paired, &moved),
        decode_states(&rowwise, &codes)
    );
    assert_eq!(
        decode(&paired, &moved, &SCALES, Contract::Exact),
        decode(&rowwise, &codes, &SCALES, Contract::Exact)
    );
}

#[test]
fn wrong_lengths_are_refused() {
    let (geometry, codes) = fixture(3);
    let short = decode(&geometry, &codes[1..], &SCALES, Contract::Exact);
    assert_eq!(
        short,
        Err(Error::Length {
            what: "the array of code words",
            found: 191,
            expected: 192
        })
    );
    let scales = decode(&geometry, &codes, &SCALES[1..], Contract::Exact);
    assert_eq!(
        scales,
        Err(Error::Length {
            what: "the array of scales",
            found: 3,
            expected: 4
        })
    );
    assert!(decode_states(&geometry, &[]).is_err());
}
