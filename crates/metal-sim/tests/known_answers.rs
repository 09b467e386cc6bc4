//! Kernels whose right answer is known without the simulator.

mod common;

use common::{Job, kernel, ordered, simulator};
use metal_sim::{DType, Input, Order, TemplateArg};

/// A permutation-like sequence of small integers, exact in every float type.
fn numbers(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 37 + 11) % 61) as f32 - 30.0)
        .collect()
}

const SUM: &str = "
    uint i = thread_position_in_threadgroup.x;
    threadgroup float partial[32];
    float total = simd_sum(a[i]);
    if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = total;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (i == 0) {
        float all = 0.0f;
        for (uint s = 0; s < simdgroups_per_threadgroup; s++) all += partial[s];
        out[0] = all;
    }";

#[test]
fn sum_of_a_group() {
    for threads in [1, 31, 32, 33, 100, 1024] {
        let a = numbers(threads);
        let job = Job::new(threads, 1, DType::F32).input(Input::of(&a, &[threads]));
        assert_eq!(
            job.run::<f32>(SUM),
            [a.iter().sum::<f32>()],
            "{threads} threads"
        );
    }
}

#[test]
fn transpose_through_threadgroup_memory() {
    let (rows, columns) = (64, 96);
    let a = numbers(rows * columns);
    let body = "
        threadgroup float tile[16][17];
        uint3 t = thread_position_in_threadgroup, g = threadgroup_position_in_grid;
        tile[t.y][t.x] = a[(g.y * 16 + t.y) * COLUMNS + g.x * 16 + t.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        out[(g.x * 16 + t.y) * ROWS + g.y * 16 + t.x] = tile[t.x][t.y];";
    let mut job = Job::new(1, rows * columns, DType::F32)
        .input(Input::of(&a, &[rows, columns]))
        .template("ROWS", TemplateArg::Int(rows as i32))
        .template("COLUMNS", TemplateArg::Int(columns as i32));
    (job.grid, job.threadgroup) = ([columns, rows, 1], [16, 16, 1]);
    let expected: Vec<f32> = (0..rows * columns)
        .map(|i| a[i % rows * columns + i / rows])
        .collect();
    for order in [Order::Forward, Order::Reverse, Order::Shuffled(7)] {
        let out = job
            .run_on(&ordered(order), &kernel(1, body))
            .unwrap()
            .to_vec::<f32>()
            .unwrap();
        assert_eq!(out, expected, "{order:?}");
    }
}

#[test]
fn matrix_product_on_simdgroup_matrices() {
    let (m, n, k) = (24, 16, 40);
    let (a, b) = (numbers(m * k), numbers(k * n));
    let body = "
        uint3 g = threadgroup_position_in_grid;
        uint lane = thread_index_in_simdgroup;
        simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        for (uint step = 0; step < K; step += 8) {
            simdgroup_float8x8 left, right;
            simdgroup_load(left, a + g.y * 8 * K + step, K);
            simdgroup_load(right, b + step * N + g.x * 8, N);
            simdgroup_multiply_accumulate(sum, left, right, sum);
        }
        simdgroup_store(sum, out + g.y * 8 * N + g.x * 8, N);";
    let mut job = Job::new(1, m * n, DType::F32)
        .input(Input::of(&a, &[m, k]))
        .input(Input::of(&b, &[k, n]))
        .template("N", TemplateArg::Int(n as i32))
        .template("K", TemplateArg::Int(k as i32));
    (job.grid, job.threadgroup) = ([n / 8 * 32, m / 8, 1], [32, 1, 1]);
    let expected: Vec<f32> = (0..m * n)
        .map(|i| (0..k).map(|t| a[i / n * k + t] * b[t * n + i % n]).sum())
        .collect();
    assert_eq!(job.run::<f32>(body), expected);
    let _ = simulator();
}
