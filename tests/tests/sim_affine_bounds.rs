//! Products within the bounds that float32 sums and one rounding allow, over the edges of every
//! extent, for every bit width, group size and dtype.

mod sim;

use metal_sim::DType;
use sim::FLOATS;
use sim::affine::{BITS, GROUPS, Kernel, NARROW, Problem, Shape, WIDE};

/// Row counts at the edges of blocks.
const ROWS: [usize; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 64];
/// Inner widths with tails; each group size takes those that it divides.
const TAILS: [usize; 12] = [32, 64, 96, 128, 160, 224, 288, 320, 384, 480, 544, 576];

/// A problem's rows alone decide how the split kernel is launched, not what is compiled: one set of
/// weights serves every row count.
fn verify_rows(problem: &Problem, kernel: Kernel, counts: &[usize]) {
    for &rows in counts {
        problem.rows(0..rows).verify(kernel);
    }
}

/// Every bit width, group size and dtype, with a number that differs from one to the next.
fn combinations() -> impl Iterator<Item = (usize, usize, usize, DType)> {
    let groups_and_types = GROUPS
        .into_iter()
        .flat_map(|group| FLOATS.map(|dtype| (group, dtype)));
    let all = BITS
        .into_iter()
        .flat_map(move |bits| groups_and_types.clone().map(move |(g, t)| (bits, g, t)));
    all.enumerate()
        .map(|(i, (bits, group, dtype))| (i, bits, group, dtype))
}

fn tail(group: usize, i: usize) -> usize {
    let fitting: Vec<usize> = TAILS
        .into_iter()
        .filter(|k| k.is_multiple_of(group))
        .collect();
    fitting[i % fitting.len()]
}

#[test]
fn split_over_rows_and_tails() {
    for (i, bits, group, dtype) in combinations() {
        let (kernel, n) = if i % 2 == 0 {
            (WIDE, 16)
        } else {
            (NARROW, [8, 24][i / 2 % 2])
        };
        let shape = Shape::new(64, n, tail(group, i), bits, group, dtype);
        verify_rows(&Problem::random(shape, i as u64), kernel, &ROWS);
    }
}

#[test]
fn mma_over_rows_and_tails() {
    for (i, bits, group, dtype) in combinations() {
        let n = [8, 16, 24, 32, 40][i % 5];
        let shape = Shape::new(1 + i % 8, n, tail(group, i), bits, group, dtype);
        Problem::random(shape, i as u64).verify(Kernel::Mma);
    }
}

#[test]
fn rows_over_rows_and_tails() {
    for (i, bits, group, dtype) in combinations() {
        let n = [4, 8, 12][i % 3];
        let shape = Shape::new(2 + i % 7, n, tail(group, i), bits, group, dtype);
        Problem::random(shape, i as u64).verify(Kernel::Rows);
    }
}

#[test]
fn every_row_count_of_the_kernels_compiled_for_one() {
    for rows in 1..=8 {
        let dtype = FLOATS[rows % 3];
        Problem::random(Shape::new(rows, 24, 352, 3, 32, dtype), 20).verify(Kernel::Mma);
        if rows > 1 {
            Problem::random(Shape::new(rows, 12, 352, 4, 32, dtype), 21).verify(Kernel::Rows);
        }
    }
}

/// More steps than simdgroups that share them, and fewer; long sums with and without tails.
#[test]
fn long_inner_widths() {
    for (i, k) in [256, 512, 768, 2304, 5120, 5152, 5184, 5248]
        .into_iter()
        .enumerate()
    {
        let group = if k % 128 == 0 {
            128
        } else if k % 64 == 0 {
            64
        } else {
            32
        };
        let (bits, dtype) = (BITS[i % 6], FLOATS[i % 3]);
        let problem = Problem::random(Shape::new(17, 16, k, bits, group, dtype), k as u64);
        verify_rows(&problem, WIDE, &[1, 8, 9, 17]);
        verify_rows(&problem, NARROW, &[1, 17]);
        problem.rows(0..5).verify(Kernel::Mma);
        problem.rows(0..5).verify(Kernel::Rows);
    }
}

#[test]
fn output_counts_at_the_edges_of_plans() {
    for (i, n) in [2040, 2048, 2056, 2064].into_iter().enumerate() {
        let kernel = if n % 16 == 0 { WIDE } else { NARROW };
        let problem = Problem::random(Shape::new(9, n, 96, BITS[i], 32, FLOATS[i % 3]), n as u64);
        verify_rows(&problem, kernel, &[2, 9]);
        problem.rows(0..3).verify(Kernel::Mma);
        problem.rows(0..3).verify(Kernel::Rows);
    }
}

/// Other divisions of the work than the plan table's.
#[test]
fn other_splits() {
    let problem = Problem::random(Shape::new(9, 96, 1312, 5, 32, DType::F16), 30);
    for (tiles, splits) in [(1, 1), (3, 4), (4, 1), (2, 32), (1, 5)] {
        verify_rows(&problem, Kernel::Split { tiles, splits }, &[1, 9]);
    }
}

#[test]
fn scales_of_another_dtype() {
    for (i, (dtype, scale_dtype)) in FLOATS
        .into_iter()
        .flat_map(|x| FLOATS.map(|s| (x, s)))
        .enumerate()
    {
        for kernel in [Kernel::Rows, Kernel::Mma, NARROW] {
            let shape = Shape {
                scale_dtype,
                ..Shape::new(7, 8, 160, BITS[i % 6], 32, dtype)
            };
            Problem::random(shape, i as u64).verify(kernel);
        }
    }
}

/// b - 2^B s is not a float32: the split form has rounded twice, and its bound allows for that.
#[test]
fn inexact_fraction_form() {
    let shape = Shape::new(4, 16, 512, 4, 64, DType::F32);
    let problem = Problem::uniform(shape, 1.37 * (-26f32).exp2(), 1.0, 31);
    let x = Problem::random(shape, 32).x;
    let problem = problem.with_x(x);
    problem.verify(WIDE);
    problem.verify(NARROW);
}

/// Weights that cancel: the rows kernel never forms them, and its bound allows for that.
#[test]
fn cancelling_scale_and_bias() {
    for (bits, dtype) in [(3, DType::F32), (4, DType::F16), (8, DType::F32)] {
        let scale = 0.25;
        let bias = -scale * ((1u32 << bits) - 1) as f32 / 2.0;
        let shape = Shape::new(8, 8, 1024, bits, 128, dtype);
        let problem = Problem::uniform(shape, scale, bias, 33);
        let x = Problem::random(shape, 34)
            .x
            .into_iter()
            .map(|x| 4.0 + x)
            .collect();
        problem.with_x(x).verify(Kernel::Rows);
    }
}

/// Sums beyond the largest number of T come out infinite.
#[test]
fn overflow_is_infinite() {
    let problem = Problem::uniform(Shape::new(2, 8, 128, 8, 64, DType::F16), 8.0, 0.0, 35);
    let problem = problem.with_x(vec![4.0; 256]);
    for kernel in [Kernel::Rows, Kernel::Mma, NARROW] {
        assert!(
            problem.run(kernel).iter().all(|y| *y == f32::INFINITY),
            "{kernel:?}"
        );
        problem.verify(kernel);
    }
}

/// Norm of the error over the norm of the product.
fn relative_error(problem: &Problem, kernel: Kernel) -> f64 {
    let reference = problem.reference();
    let errors = problem
        .run(kernel)
        .into_iter()
        .zip(&reference)
        .map(|(y, r)| f64::from(y) - r);
    let error: f64 = errors.map(|error| error * error).sum();
    let norm: f64 = reference.iter().map(|r| r * r).sum();
    (error / norm).sqrt()
}

/// Over many outputs the error is that of one rounding to T: weights rounded to T would show.
#[test]
fn norm_wise_error() {
    for (dtype, allowed) in [
        (DType::F16, 2.4e-4),
        (DType::BF16, 1.9e-3),
        (DType::F32, 5e-6),
    ] {
        let problem = Problem::random(Shape::new(4, 1024, 256, 4, 64, dtype), 36);
        for kernel in [Kernel::Rows, Kernel::Mma, WIDE] {
            let error = relative_error(&problem, kernel);
            assert!(
                error <= allowed,
                "{kernel:?}, {dtype:?}: {error:e} over {allowed:e}"
            );
        }
    }
}

/// Long float32 sums: what accumulation alone loses, before any rounding to 16 bits.
#[test]
fn norm_wise_error_of_long_sums() {
    for bits in [3, 4, 8] {
        let problem = Problem::random(Shape::new(8, 64, 5120, bits, 64, DType::F32), 37);
        for kernel in [Kernel::Rows, Kernel::Mma, WIDE, NARROW] {
            let error = relative_error(&problem, kernel);
            assert!(error <= 5e-6, "{kernel:?}, {bits} bits: {error:e}");
        }
    }
}
