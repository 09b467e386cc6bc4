//! half and bfloat against the `half` crate: every conversion, and arithmetic that rounds each step
//! to the type.

mod common;

use common::Job;
use half::{bf16, f16};
use metal_sim::{DType, Input, TemplateArg};

const GROUP: usize = 1024;

/// Runs one thread an element of `a`, in groups.
fn map<A: metal_sim::Element, R: metal_sim::Element>(a: &[A], dtype: DType, body: &str) -> Vec<R> {
    let mut job = Job::new(1, a.len(), R::DTYPE)
        .input(Input::of(a, &[a.len()]))
        .template("T", TemplateArg::DType(dtype));
    (job.grid, job.threadgroup) = ([a.len(), 1, 1], [GROUP, 1, 1]);
    job.run(&format!("uint i = thread_position_in_grid.x; {body}"))
}

fn all_bits() -> Vec<u16> {
    (0..=u16::MAX).collect()
}

#[test]
fn every_value_widens_exactly() {
    let bits = all_bits();
    let half: Vec<f32> = map(&bits, DType::F16, "out[i] = float(as_type<T>(a[i]));");
    let brain: Vec<f32> = map(&bits, DType::BF16, "out[i] = float(as_type<T>(a[i]));");
    for (i, &b) in bits.iter().enumerate() {
        for (found, expected) in [
            (half[i], f16::from_bits(b).to_f32()),
            (brain[i], bf16::from_bits(b).to_f32()),
        ] {
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{b:#06x}: {found} instead of {expected}");
        }
    }
}

/// Around each value of a type that `widen`s to float: itself, its neighbours in float, the middle
/// of the way to the next value, and the neighbours of that.
fn rounding_cases(widen: fn(u16) -> f32) -> Vec<f32> {
    let near = |x: f32| {
        [
            x,
            f32::from_bits(x.to_bits() + 1),
            f32::from_bits(x.to_bits().saturating_sub(1)),
        ]
    };
    (0..0x7f7f_u16)
        .chain(0x7f80..0x8000)
        .flat_map(|b| {
            let (low, high) = (widen(b), widen(b.wrapping_add(1)));
            near(low)
                .into_iter()
                .chain(near(low + (high - low) / 2.0))
                .flat_map(|x| [x, -x])
        })
        .collect()
}

#[test]
fn every_rounding_is_to_nearest_even() {
    let cases = rounding_cases(|b| f16::from_bits(b).to_f32());
    let found: Vec<u16> = map(&cases, DType::F16, "out[i] = as_type<ushort>(T(a[i]));");
    for (x, b) in cases.iter().zip(found) {
        let (found, expected) = (f16::from_bits(b), f16::from_f32(*x));
        assert!(
            b == expected.to_bits() || found.is_nan() && expected.is_nan(),
            "{x:e}: {found:e} not {expected:e}"
        );
    }
    let cases = rounding_cases(|b| bf16::from_bits(b).to_f32());
    let found: Vec<u16> = map(&cases, DType::BF16, "out[i] = as_type<ushort>(T(a[i]));");
    for (x, b) in cases.iter().zip(found) {
        let (found, expected) = (bf16::from_bits(b), bf16::from_f32(*x));
        assert!(
            b == expected.to_bits() || found.is_nan() && expected.is_nan(),
            "{x:e}: {found:e} not {expected:e}"
        );
    }
}

#[test]
fn arithmetic_rounds_every_operation() {
    let bits: Vec<u32> = (0..1u32 << 16)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect();
    let body = "
        T x = as_type<T>(ushort(a[i] & 0xffff)), y = as_type<T>(ushort(a[i] >> 16));
        out[i] = as_type<ushort>(T((x + y) * x - y / x));";
    let half: Vec<u16> = map(&bits, DType::F16, body);
    let brain: Vec<u16> = map(&bits, DType::BF16, body);
    for (i, &b) in bits.iter().enumerate() {
        let (low, high) = ((b & 0xffff) as u16, (b >> 16) as u16);
        let (x, y, found) = (
            f16::from_bits(low),
            f16::from_bits(high),
            f16::from_bits(half[i]),
        );
        let expected = (x + y) * x - y / x;
        assert!(
            found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
            "half {x} {y}: {found} not {expected}"
        );
        let (x, y, found) = (
            bf16::from_bits(low),
            bf16::from_bits(high),
            bf16::from_bits(brain[i]),
        );
        let expected = (x + y) * x - y / x;
        assert!(
            found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
            "bfloat {x} {y}: {found} not {expected}"
        );
    }
}

#[test]
fn fused_multiply_add_rounds_once() {
    // The product is 1 + 2^-9 + 2^-20, whose last term half cannot hold beside the first.
    let body = "
        T x = T(1.0f + 0.0009765625f);
        out[i] = float(fma(x, x, T(a[i])));";
    let a = [0.0f32, 2048.0, -1.0 - 2.0 / 1024.0];
    let found: Vec<f32> = map(&a, DType::F16, body);
    assert_eq!(found, [1.0 + 2.0 / 1024.0, 2050.0, f32::powi(2.0, -20)]);
    // 16384 + 8 is a tie of half, the third term breaks it: rounding the sum to float first would
    // lose it.
    let tie: Vec<f32> = map(
        &[f32::powi(2.0, -24)],
        DType::F16,
        "out[i] = float(fma(T(a[i]), T(1.0f), T(fma(T(4.0f), T(2.0f), T(16384.0f)))));",
    );
    assert_eq!(tie, [16384.0]);
    let broken: Vec<f32> = map(
        &[8.0f32],
        DType::F16,
        "out[i] = float(fma(T(a[i] + 0.0078125f), T(1.0f), T(16384.0f)));",
    );
    assert_eq!(broken, [16400.0]);
}

/// Evaluates expressions of `T h = 1.5`, all in one kernel.
fn evaluate(dtype: DType, cases: &[(&str, f32)]) {
    let expressions: Vec<String> = cases
        .iter()
        .map(|(text, _)| format!("{{ T h = T(1.5f); out[at++] = float({text}); }}"))
        .collect();
    let body = format!(
        "uint at = thread_position_in_grid.x; {}",
        expressions.join("\n")
    );
    let found = Job::new(1, cases.len(), DType::F32)
        .template("T", TemplateArg::DType(dtype))
        .run::<f32>(&body);
    for ((expression, expected), found) in cases.iter().zip(found) {
        assert_eq!(found, *expected, "{expression} of {dtype:?}");
    }
}

#[test]
fn literals_mixtures_and_comparisons() {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        evaluate(
            dtype,
            &[
                ("h + 1", 2.5),
                ("2 * h", 3.0),
                ("-h", -1.5),
                ("h < T(2.0) ? 1 : 0", 1.0),
                ("h == T(1.5) && h >= h", 1.0),
                ("(h += T(1), h *= 2, h)", 5.0),
                ("max(h, T(7))", 7.0),
                ("metal::abs(-h)", 1.5),
                ("metal::exp(h - h)", 1.0),
                ("int(h)", 1.0),
                // A float operand makes the sum a float.
                ("h + 0.0009765625f * 0.25f", 1.5 + 0.25 / 1024.0),
                ("Limits<T>::min < T(-1000) ? 1 : 0", 1.0),
                ("isinf(Limits<T>::max) ? 1 : 0", 1.0),
            ],
        );
    }
    evaluate(
        DType::F16,
        &[
            ("numeric_limits<T>::max()", 65504.0),
            ("1.0h / 3.0h", f16::from_f32(1.0 / 3.0).to_f32()),
            ("half(bfloat(2.5f)) + half(0.5bf)", 3.0),
            ("half(2049)", 2048.0),
            // Just above a tie; rounding to float first would fall on it.
            ("float(bfloat(16842753))", 16_908_288.0),
        ],
    );
}

#[test]
fn unsuffixed_constants_are_floats() {
    let found: Vec<u32> = map(
        &[0u32],
        DType::F32,
        "out[i] = sizeof(1.0) == 4 || 0.1 == 0.1f ? 1 : 0;",
    );
    assert_eq!(found, [1]);
}
