//! Operations among lanes, against plain Rust.

mod common;

use common::Job;
use half::f16;
use metal_sim::{DType, Input};

const LANES: usize = 32;

fn numbers(count: usize) -> Vec<i32> {
    (0..count as i32).map(|i| (i * 37 + 11) % 61 - 30).collect()
}

/// Evaluates `expression` of `int v` in every one of `lanes` lanes.
fn each_lane(lanes: usize, expression: &str) -> Vec<i32> {
    let a = numbers(lanes);
    let body = format!(
        "uint lane = thread_index_in_simdgroup;
         int v = a[lane];
         out[lane] = int({expression});"
    );
    Job::new(lanes, lanes, DType::I32)
        .input(Input::of(&a, &[lanes]))
        .run(&body)
}

/// `expression` gives, in lane i of 32, lane `from(i)`'s value.
fn check_shuffle(expression: &str, from: impl Fn(usize) -> usize) {
    let a = numbers(LANES);
    let expected: Vec<i32> = (0..LANES).map(|lane| a[from(lane)]).collect();
    assert_eq!(each_lane(LANES, expression), expected, "{expression}");
}

#[test]
fn shuffles() {
    check_shuffle("simd_shuffle(v, (lane * 7 + 3) % 32)", |lane| {
        (lane * 7 + 3) % 32
    });
    check_shuffle("simd_shuffle_xor(v, 5)", |lane| lane ^ 5);
    check_shuffle("simd_shuffle_down(v, 3)", |lane| {
        if lane + 3 < 32 { lane + 3 } else { lane }
    });
    check_shuffle("simd_shuffle_up(v, 3)", |lane| {
        if lane >= 3 { lane - 3 } else { lane }
    });
    check_shuffle("simd_shuffle_rotate_down(v, 3)", |lane| (lane + 3) % 32);
    check_shuffle("simd_shuffle_rotate_up(v, 3)", |lane| (lane + 29) % 32);
    check_shuffle("simd_broadcast(v, 17)", |_| 17);
    check_shuffle("simd_broadcast_first(v)", |_| 0);
    check_shuffle("quad_shuffle_xor(v, 1)", |lane| lane ^ 1);
    check_shuffle("quad_broadcast(v, 2)", |lane| lane / 4 * 4 + 2);
    check_shuffle("quad_shuffle_down(v, 1)", |lane| {
        if lane % 4 < 3 { lane + 1 } else { lane }
    });
    check_shuffle("simd_shuffle_and_fill_down(v, v, 3)", |lane| {
        (lane + 3) % 32
    });
    check_shuffle("simd_shuffle_and_fill_up(v, v, 3)", |lane| (lane + 29) % 32);
}

#[test]
fn shuffles_of_wider_types() {
    check_shuffle("int(simd_shuffle_xor(long(v) << 33, 1) >> 33)", |lane| {
        lane ^ 1
    });
    check_shuffle("simd_shuffle_xor(float4(v, 0, 0, v), 2).w", |lane| lane ^ 2);
    check_shuffle("float(simd_shuffle_xor(half(v), 4))", |lane| lane ^ 4);
}

#[test]
fn reductions_over_whole_and_partial_simdgroups() {
    for lanes in [1, 5, 31, 32] {
        let a = numbers(lanes);
        let check = |expression: &str, expected: i32| {
            assert_eq!(
                each_lane(lanes, expression),
                vec![expected; lanes],
                "{expression} of {lanes} lanes"
            );
        };
        check("simd_sum(v)", a.iter().sum());
        check("simd_min(v)", *a.iter().min().unwrap());
        check("simd_max(v)", *a.iter().max().unwrap());
        check("simd_and(v)", a.iter().fold(-1, |all, v| all & v));
        check("simd_or(v)", a.iter().fold(0, |all, v| all | v));
        check("simd_xor(v)", a.iter().fold(0, |all, v| all ^ v));
        check(
            "simd_product(v == 0 ? 1 : v % 2 * 2 - 1)",
            a.iter()
                .map(|&v| if v == 0 { 1 } else { v % 2 * 2 - 1 })
                .product(),
        );
        check("simd_any(v == 11)", i32::from(a.contains(&11)));
        check("simd_all(v > -31)", 1);
        check("ulong(simd_ballot(v > 0)) & 1", i32::from(a[0] > 0));
        check(
            "popcount(uint(ulong(simd_active_threads_mask())))",
            lanes as i32,
        );
    }
}

#[test]
fn prefixes() {
    let a = numbers(LANES);
    let sums: Vec<i32> = (0..=LANES).map(|n| a[..n].iter().sum()).collect();
    assert_eq!(each_lane(LANES, "simd_prefix_inclusive_sum(v)"), sums[1..]);
    assert_eq!(
        each_lane(LANES, "simd_prefix_exclusive_sum(v)"),
        sums[..LANES]
    );
}

#[test]
fn quads_and_first_lanes() {
    let a = numbers(LANES);
    let quads: Vec<i32> = (0..LANES)
        .map(|lane| a[lane / 4 * 4..][..4].iter().sum())
        .collect();
    assert_eq!(each_lane(LANES, "quad_sum(v)"), quads);
    let first: Vec<i32> = (0..LANES).map(|lane| i32::from(lane == 0)).collect();
    assert_eq!(each_lane(LANES, "simd_is_first()"), first);
}

#[test]
fn sum_is_a_balanced_tree_and_rounds_to_the_type() {
    let a: Vec<f16> = (0..LANES)
        .map(|i| f16::from_f32(1.0 + i as f32 / 7.0))
        .collect();
    let job = Job::new(LANES, 1, DType::F16).input(Input::of(&a, &[LANES]));
    let out = job.run::<f16>("half s = simd_sum(a[thread_index_in_simdgroup]); if (thread_index_in_simdgroup == 0) out[0] = s;");
    let mut level = a.clone();
    while level.len() > 1 {
        level = level.chunks(2).map(|pair| pair[0] + pair[1]).collect();
    }
    assert_eq!(out, level);
}

#[test]
fn lanes_that_returned_take_no_part() {
    let body = "
        uint lane = thread_index_in_simdgroup;
        if (lane >= 20) { out[lane] = 0; return; }
        float far = simd_shuffle(float(lane), 25);
        out[lane] = simd_sum(1.0f) + (isnan(far) ? 100.0f : 0.0f);";
    let out = Job::new(LANES, LANES, DType::F32).run::<f32>(body);
    let expected: Vec<f32> = (0..LANES)
        .map(|lane| if lane < 20 { 120.0 } else { 0.0 })
        .collect();
    assert_eq!(out, expected);
}

#[test]
fn simdgroups_keep_apart() {
    let body = "
        uint i = thread_position_in_threadgroup.x;
        float total = 0.0f;
        for (uint r = 0; r < 3 + 2 * simdgroup_index_in_threadgroup; r++) total += simd_sum(1.0f);
        out[i] = total;";
    let out = Job::new(70, 70, DType::F32).run::<f32>(body);
    let expected: Vec<f32> = (0..70).map(|i| [96.0, 160.0, 42.0][i / 32]).collect();
    assert_eq!(out, expected);
}
