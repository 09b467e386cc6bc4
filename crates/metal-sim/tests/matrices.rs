//! Simdgroup matrices: the fragment layout, loads and stores, and products of every operand type.

mod common;

use common::Job;
use half::{bf16, f16};
use metal_sim::{DType, Input, TemplateArg};

/// Row and first column of a lane's two elements, from the layout's definition.
fn fragment(lane: usize) -> (usize, usize) {
    let bit = |b: usize| lane >> b & 1;
    (4 * bit(4) + 2 * bit(2) + bit(1), 4 * bit(3) + 2 * bit(0))
}

#[test]
fn elements_of_each_lane() {
    let a: Vec<f32> = (0..64u8).map(f32::from).collect();
    let job = Job::new(32, 64, DType::F32).input(Input::of(&a, &[8, 8]));
    let body = "
        simdgroup_float8x8 m;
        simdgroup_load(m, a);
        uint lane = thread_index_in_simdgroup;
        out[2 * lane] = m.thread_elements()[0];
        out[2 * lane + 1] = m.thread_elements().y;";
    let out = job.run::<f32>(body);
    for lane in 0..32 {
        let (row, column) = fragment(lane);
        assert_eq!(
            out[2 * lane..2 * lane + 2],
            [a[row * 8 + column], a[row * 8 + column + 1]],
            "lane {lane}"
        );
    }
}

#[test]
fn loads_and_stores_with_stride_origin_and_transposition() {
    let (rows, columns) = (20, 24);
    let a: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    let job = Job::new(32, rows * columns + 64, DType::F32).input(Input::of(&a, &[rows, columns]));
    let job = Job {
        init_value: Some(-1.0),
        ..job
    };
    let body = "
        simdgroup_float8x8 m;
        simdgroup_load(m, a, 24, ulong2(5, 3), true);
        simdgroup_store(m, out, 24, ulong2(2, 4));
        simdgroup_store(m, out + 480, 8, ulong2(0, 0), true);
        out[0] = float(thread_index_in_simdgroup) * 0.0f;";
    let out = job.run::<f32>(body);
    for (i, j) in (0..64).map(|e| (e / 8, e % 8)) {
        let element = a[(3 + j) * columns + 5 + i];
        assert_eq!(out[(4 + i) * columns + 2 + j], element);
        assert_eq!(out[480 + j * 8 + i], element);
    }
}

#[test]
fn scalar_constructor_makes_a_diagonal_and_filled_fills() {
    let body = "
        simdgroup_store(simdgroup_float8x8(3.0f), out);
        simdgroup_store(make_filled_simdgroup_matrix<float, 8, 8>(2.0f), out + 64);
        uint lane = thread_index_in_simdgroup;
        simdgroup_float8x8 unset;
        out[128 + lane] = isnan(unset.thread_elements()[0]) ? 1.0f : 0.0f;";
    let out = Job::new(32, 160, DType::F32).run::<f32>(body);
    let diagonal: Vec<f32> = (0..64)
        .map(|e| if e / 8 == e % 8 { 3.0 } else { 0.0 })
        .collect();
    assert_eq!(out[..64], diagonal);
    assert!(out[64..128].iter().all(|&x| x == 2.0) && out[128..].iter().all(|&x| x == 1.0));
}

/// C + A B with one fused multiply-add a term, terms ascending.
fn product(a: &[f32], b: &[f32], c: &[f32]) -> Vec<f32> {
    let term = |i: usize, j: usize| {
        (0..8).fold(c[i * 8 + j], |sum, t| {
            a[i * 8 + t].mul_add(b[t * 8 + j], sum)
        })
    };
    (0..64).map(|e| term(e / 8, e % 8)).collect()
}

/// Values whose products and sums round in every step.
fn rough(seed: u32) -> Vec<f32> {
    (0..64u32)
        .map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 8) as f32 / f32::powi(2.0, 23) - 1.0)
        .collect()
}

#[test]
fn accumulation_order_and_rounding_for_every_operand_type() {
    let c = rough(3);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let round = |v: Vec<f32>| -> Vec<f32> {
            v.into_iter()
                .map(|x| match dtype {
                    DType::F16 => f16::from_f32(x).to_f32(),
                    DType::BF16 => bf16::from_f32(x).to_f32(),
                    _ => x,
                })
                .collect()
        };
        let (a, b) = (round(rough(1)), round(rough(2)));
        let job = Job::new(32, 128, DType::F32)
            .input(Input::of(&a, &[64]))
            .input(Input::of(&b, &[64]))
            .input(Input::of(&c, &[64]))
            .template("T", TemplateArg::DType(dtype));
        let body = "
            simdgroup_float8x8 fa, fb, acc, plain;
            simdgroup_load(fa, a);
            simdgroup_load(fb, b);
            simdgroup_load(acc, c);
            simdgroup_matrix<T, 8, 8> ma, mb;
            ma.thread_elements() = vec<T, 2>(T(fa.thread_elements().x), T(fa.thread_elements().y));
            reinterpret_cast<thread vec<T, 2>&>(mb.thread_elements()) = vec<T, 2>(fb.thread_elements());
            simdgroup_multiply_accumulate(acc, ma, fb, acc);
            simdgroup_multiply(plain, fa, mb);
            simdgroup_store(acc, out);
            simdgroup_store(plain, out + 64 + 0 * thread_index_in_simdgroup);";
        let out = job.run::<f32>(body);
        assert_eq!(out[..64], product(&a, &b, &c), "{dtype:?}");
        assert_eq!(out[64..], product(&a, &b, &[0.0; 64]), "{dtype:?}");
    }
}

#[test]
fn accumulators_of_a_narrow_type_round_once_a_product() {
    let (a, b) = (rough(1), rough(2));
    let job = Job::new(32, 64, DType::F16)
        .input(Input::of(&a, &[64]))
        .input(Input::of(&b, &[64]));
    let body = "
        simdgroup_float8x8 fa, fb;
        simdgroup_load(fa, a);
        simdgroup_load(fb, b);
        simdgroup_half8x8 acc = make_filled_simdgroup_matrix<half, 8, 8>(half(1));
        simdgroup_multiply_accumulate(acc, fa, fb, acc);
        simdgroup_store(acc, out + 0 * thread_index_in_simdgroup);";
    let expected: Vec<f16> = product(&a, &b, &[1.0; 64])
        .into_iter()
        .map(f16::from_f32)
        .collect();
    assert_eq!(job.run::<f16>(body), expected);
}
