//! What a row's result may not depend on: the other rows, their number, memory that is not its own,
//! and the order in which threads run.

mod sim;

use metal_sim::{DType, Order};
use sim::affine::{KERNELS, Kernel, NARROW, Problem, Shape, WIDE};
use sim::{FLOATS, ordered, simulator};

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn row(y: &[f32], n: usize, row: usize) -> Vec<u32> {
    bits(&y[row * n..(row + 1) * n])
}

/// Every row of a batch has the bits of that row alone, at the smallest count the kernel takes.
#[test]
fn batches_equal_their_rows() {
    for (dtype, group, k) in [
        (DType::F32, 32, 352),
        (DType::F16, 64, 512),
        (DType::BF16, 128, 384),
    ] {
        for kernel in KERNELS {
            let counts: Vec<usize> = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64]
                .into_iter()
                .filter(|&rows| kernel.takes(rows))
                .collect();
            let most = counts[counts.len() - 1];
            let problem = Problem::random(Shape::new(most, 16, k, 3, group, dtype), 40);
            let alone: Vec<Vec<u32>> = (0..most)
                .map(|m| {
                    // The rows kernel does not take one row: the row is beside itself.
                    let x = problem.x[m * k..(m + 1) * k].repeat(counts[0]);
                    row(&problem.with_x(x).run(kernel), 16, 0)
                })
                .collect();
            for &rows in &counts {
                let y = problem.rows(0..rows).run(kernel);
                for (m, expected) in alone.iter().enumerate().take(rows) {
                    assert_eq!(
                        &row(&y, 16, m),
                        expected,
                        "{kernel:?}, {dtype:?}: row {m} of {rows}"
                    );
                }
            }
        }
    }
}

/// A row keeps its bits at every place of its block.
#[test]
fn place_in_the_block_does_not_matter() {
    for kernel in KERNELS {
        let problem = Problem::random(Shape::new(8, 16, 288, 5, 32, DType::F16), 41);
        let k = problem.k;
        let expected = row(&problem.run(kernel), 16, 0);
        for place in 1..8 {
            let mut x = problem.x.clone();
            x.rotate_right(place * k);
            assert_eq!(
                row(&problem.with_x(x).run(kernel), 16, place),
                expected,
                "{kernel:?}: place {place}"
            );
        }
    }
}

/// Rows of NaN and of infinities beside it leave a row alone, with a tail that lies next to them.
#[test]
fn bad_rows_do_not_leak() {
    for dtype in FLOATS {
        for kernel in KERNELS {
            let problem = Problem::random(Shape::new(8, 16, 352, 4, 32, dtype), 42);
            let k = problem.k;
            let expected = problem.run(kernel);
            for good in [0, 3, 7] {
                let mut x = problem.x.clone();
                for (m, values) in x
                    .chunks_exact_mut(k)
                    .enumerate()
                    .filter(|(m, _)| *m != good)
                {
                    values.fill(if m % 2 == 0 { f32::NAN } else { f32::INFINITY });
                }
                let y = problem.with_x(x).run(kernel);
                assert_eq!(
                    row(&y, 16, good),
                    row(&expected, 16, good),
                    "{kernel:?}, {dtype:?}: row {good}"
                );
            }
        }
    }
}

/// An output whose neighbour's scales and biases are NaN is right: its tail reads none of them.
#[test]
fn bad_outputs_do_not_leak() {
    for (group, k) in [(32, 96), (64, 320), (128, 384)] {
        for kernel in KERNELS {
            let problem = Problem::random(Shape::new(2, 16, k, 6, group, DType::F32), 43);
            let mut bad = problem.clone();
            for n in (1..16).step_by(2) {
                bad.scales[n * k / group..(n + 1) * k / group].fill(f32::NAN);
                bad.biases[n * k / group..(n + 1) * k / group].fill(f32::NAN);
            }
            let (expected, y) = (problem.run(kernel), bad.run(kernel));
            for (i, (y, expected)) in y.iter().zip(&expected).enumerate() {
                let fits = if i % 2 == 0 {
                    y == expected
                } else {
                    y.is_nan()
                };
                assert!(
                    fits,
                    "{kernel:?}, group {group}: element {i} is {y}, expected {expected}"
                );
            }
        }
    }
}

/// An output array of more rows than x has keeps what was in the surplus. (The simulator is strict:
/// it fails on a write outside the array, and every read outside gives NaN.)
#[test]
fn surplus_rows_are_not_written() {
    for kernel in KERNELS {
        for rows in (1..=8).filter(|&rows| kernel.takes(rows)) {
            let problem = Problem::random(Shape::new(rows, 16, 96, 3, 32, DType::F16), 44);
            let expected = problem.run(kernel);
            let y = problem
                .run_padded(simulator(), &kernel.source(), kernel, 9)
                .unwrap();
            assert_eq!(
                bits(&y[..rows * 16]),
                bits(&expected),
                "{kernel:?}: {rows} rows"
            );
            assert!(
                y[rows * 16..].iter().all(|&y| y == 7.0),
                "{kernel:?}: {rows} rows"
            );
        }
    }
}

#[test]
fn surplus_rows_of_a_second_block_are_not_written() {
    for kernel in [WIDE, NARROW] {
        let problem = Problem::random(Shape::new(15, 16, 96, 3, 32, DType::F16), 45);
        for rows in 9..=15 {
            let y = problem
                .rows(0..rows)
                .run_padded(simulator(), &kernel.source(), kernel, 3)
                .unwrap();
            assert!(
                y[rows * 16..].iter().all(|&y| y == 7.0),
                "{kernel:?}: {rows} rows"
            );
        }
    }
}

/// Threads in other orders give the same bits: no barrier is missing.
#[test]
fn order_of_threads_does_not_matter() {
    for kernel in KERNELS {
        let problem = Problem::random(Shape::new(8, 16, 800, 5, 32, DType::F32), 46);
        let expected = bits(&problem.run(kernel));
        for order in [Order::Reverse, Order::Shuffled(1), Order::Shuffled(2)] {
            let y = problem
                .run_with(&ordered(order), &kernel.source(), kernel)
                .unwrap();
            assert_eq!(bits(&y), expected, "{kernel:?}, {order:?}");
        }
    }
}

/// Without a tail, tiles are a matter of who computes what: the bits are those of one tile.
#[test]
fn tiles_do_not_change_bits() {
    let problem = Problem::random(Shape::new(9, 32, 544, 4, 32, DType::F32), 47);
    for splits in [1, 2, 8] {
        let one = problem.run(Kernel::Split { tiles: 1, splits });
        for tiles in [2, 4] {
            assert_eq!(
                bits(&problem.run(Kernel::Split { tiles, splits })),
                bits(&one),
                "{tiles} tiles, {splits} splits"
            );
        }
    }
}
