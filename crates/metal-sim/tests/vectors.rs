//! Vectors, swizzles, bit reinterpretation and the function library.

mod common;

use common::Job;
use metal_sim::{DType, Input};

/// Evaluates expressions after the given statements, all in one kernel.
fn evaluate(statements: &str, cases: &[(&str, f64)]) {
    let lines: Vec<String> = cases
        .iter()
        .map(|(text, _)| format!("out[at++] = float({text});"))
        .collect();
    let body = format!(
        "uint at = thread_position_in_grid.x;\n{statements}\n{}",
        lines.join("\n")
    );
    let found = Job::new(1, cases.len(), DType::F32).run::<f32>(&body);
    for ((expression, expected), found) in cases.iter().zip(found) {
        assert!(
            (f64::from(found) - expected).abs() <= expected.abs() * 1e-6,
            "{expression}: {found}, not {expected}"
        );
    }
}

#[test]
fn sizes_and_alignments() {
    evaluate(
        "",
        &[
            ("sizeof(float2)", 8.0),
            ("sizeof(float3)", 16.0),
            ("alignof(float3)", 16.0),
            ("sizeof(float4)", 16.0),
            ("alignof(half4)", 8.0),
            ("sizeof(uchar4)", 4.0),
            ("sizeof(packed_float3)", 12.0),
            ("alignof(packed_float3)", 4.0),
            ("sizeof(long)", 8.0),
            ("sizeof(simdgroup_float8x8)", 8.0),
        ],
    );
}

#[test]
fn constructors_operators_and_swizzles() {
    evaluate(
        "float4 v(1, 2, 3, 4), w(float2(5, 6), 7, 8.0f), s = 9.0f;
         float4 moved = v;
         moved.xy = v.zw;
         moved.zw = moved.yx;
         moved.x += 10;
         half4 h = half4(v * 0.5f);
         float3 n = float3(v.xy, 5.0f);
         n.xy += float2(1, 1);
         uint3 p(7, 8, 9);
         float4 list{1, 2, 3, 4};
         const vec<half, 4> typed = vec<half, 4>(2);",
        &[
            ("w.x + w.w", 13.0),
            ("s.z", 9.0),
            ("v[2]", 3.0),
            ("float4(v.wzyx).x", 4.0),
            ("(v.xyz + w.yzw).z", 11.0),
            ("moved.x", 13.0),
            ("moved.y", 4.0),
            ("moved.z", 4.0),
            ("moved.w", 3.0),
            ("float4(h).y", 1.0),
            ("(h + typed).w", 4.0),
            ("n.x + n.y + n.z", 10.0),
            ("(p / 2).y", 4.0),
            ("(p.xy % uint2(4, 3)).y", 2.0),
            ("dot(v, w)", 70.0),
            ("dot(v.xy, w.zw)", 23.0),
            ("(2.0f * v - 1.0f).w", 7.0),
            ("(-v).x", -1.0),
            ("any(v > w)", 0.0),
            ("all(v.xy == float2(1, 2))", 1.0),
            ("select(v, w, v > 2.5f).z", 7.0),
            ("max(v, w).x + min(v, 2.5f).w", 7.5),
            ("length(float2(3, 4))", 5.0),
            ("cross(float3(1, 0, 0), float3(0, 1, 0)).z", 1.0),
            ("list.b", 3.0),
            ("fma(v, w, s).y", 21.0),
            ("clamp(v, 2.0f, 3.0f).w", 3.0),
            ("(uint4(v) << 2u).w", 16.0),
        ],
    );
}

#[test]
fn reinterpretation_of_memory_and_values() {
    let a: Vec<u32> = vec![
        0x3f80_0000,
        0x4000_0000,
        0x0403_0201,
        0xffff_fffe,
        5,
        6,
        7,
        8,
    ];
    let job = Job::new(1, 6, DType::F32).input(Input::of(&a, &[8]));
    let body = "
        const device float* f = (const device float*)a;
        const device uchar* bytes = reinterpret_cast<const device uchar*>(a + 2);
        uint4 last = *(const device uint4*)(a + 4);
        uchar4 c = as_type<uchar4>(a[2]);
        out[thread_position_in_grid.x] = f[0] + f[1];
        out[1] = bytes[1];
        out[2] = float(last.w);
        out[3] = c.z;
        out[4] = float(as_type<int>(a[3]));
        out[5] = as_type<float>(as_type<uint>(1.5f));";
    assert_eq!(job.run::<f32>(body), [3.0, 2.0, 8.0, 3.0, -2.0, 1.5]);
}

#[test]
fn functions() {
    evaluate(
        "uint u = 0x00f0u; float nan = NAN, inf = INFINITY;",
        &[
            ("exp(1.0f)", 1.0f64.exp()),
            ("metal::precise::exp(1.0f) - metal::fast::exp(1.0f)", 0.0),
            ("fast::log2(8.0f)", 3.0),
            ("rsqrt(4.0f)", 0.5),
            ("precise::rsqrt(2.0f)", 0.5f64.sqrt()),
            ("pow(2.0f, 10.0f)", 1024.0),
            ("round(2.5f) + rint(2.5f)", 5.0),
            ("floor(-1.5f) + ceil(1.2f) + trunc(-1.9f)", -1.0),
            ("fract(-0.25f)", 0.75),
            ("sign(-3.0f)", -1.0),
            ("max(nan, 1.0f) + min(2.0f, nan)", 3.0),
            (
                "isnan(nan) + isinf(-inf) + isfinite(1.0f) + isnan(inf)",
                3.0,
            ),
            ("abs(-5) + abs(-2.5f)", 7.5),
            ("clamp(7, 1, 5)", 5.0),
            ("mix(1.0f, 3.0f, 0.5f)", 2.0),
            ("saturate(1.5f)", 1.0),
            ("popcount(u) + ctz(u)", 8.0),
            ("clz(u)", 24.0),
            ("clz(ushort(1))", 15.0),
            ("extract_bits(u, 4u, 3u)", 7.0),
            ("extract_bits(-16, 4u, 8u)", -1.0),
            ("insert_bits(0u, 5u, 4u, 4u)", 80.0),
            ("reverse_bits(1u) >> 31", 1.0),
            ("mulhi(0x80000000u, 6u)", 3.0),
            ("rotate(0x80000001u, 1u)", 3.0),
            ("absdiff(3u, 5u)", 2.0),
            ("select(1.0f, 2.0f, true)", 2.0),
            ("fma(2.0f, 3.0f, 4.0f)", 10.0),
            ("numeric_limits<int>::min() + INT_MAX", -1.0),
            ("numeric_limits<uchar>::max()", 255.0),
            ("log1p(1.0f)", 2.0f64.ln()),
            ("ceildiv(7, 2)", 4.0),
            ("copysign(2.0f, -1.0f)", -2.0),
        ],
    );
}

#[test]
fn only_explicit_fma_is_fused() {
    let job = Job::new(1, 2, DType::F32);
    let body = "
        float x = 1.0f + as_type<float>(0x39800000u) + 0.0f * float(thread_position_in_grid.x);
        out[0] = x * x - x * x;
        out[1] = fma(x, x, -(x * x));";
    let out = job.run::<f32>(body);
    assert_eq!(out[0], 0.0);
    assert!(out[1] != 0.0);
}
