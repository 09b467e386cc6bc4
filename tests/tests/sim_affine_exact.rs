//! Products whose result is exact whatever the order of summation: they show the bit order, the
//! place of every code, the lane map and the group of every weight, with no tolerance to hide in.

mod sim;

use metal_sim::DType;
use sim::affine::{BITS, GROUPS, KERNELS, Kernel, Problem, Shape, WIDE};
use sim::random::Random;
use sim::{FLOATS, round};

/// Rows that a kernel is launched with here: as many as it takes, and more than one block.
fn rows(kernel: Kernel) -> usize {
    if matches!(kernel, Kernel::Split { .. }) {
        160
    } else {
        8
    }
}

/// K with a tail of one, of several, or of no column, by group size.
fn inner(group: usize) -> usize {
    match group {
        32 => 288,
        64 => 320,
        _ => 256,
    }
}

/// The kernels with different arithmetic or lane maps; the other split adds the same terms elsewhere.
const DISTINCT: [Kernel; 3] = [Kernel::Rows, Kernel::Mma, WIDE];

/// Each bit width, group size and dtype once.
fn every_combination(mut check: impl FnMut(usize, usize, DType)) {
    for bits in BITS {
        for group in GROUPS {
            for dtype in FLOATS {
                check(bits, group, dtype);
            }
        }
    }
}

/// y of a one-hot x is the weight at its place: every k of a row, in launches of `rows` rows.
fn check_one_hot(problem: &Problem, kernel: Kernel) {
    let all: Vec<usize> = (0..problem.k).collect();
    for places in all.chunks(rows(kernel)) {
        let mut x = vec![0.0; rows(kernel) * problem.k];
        for (row, &place) in places.iter().enumerate() {
            x[row * problem.k + place] = 1.0;
        }
        let y = problem.with_x(x).run(kernel);
        for (row, &place) in places.iter().enumerate() {
            for n in 0..problem.n {
                let (scale, bias) = problem.affine(n, place);
                let weight = kernel.weight(problem.code(n, place), scale, bias, problem.bits);
                let (found, expected) = (y[row * problem.n + n], round(weight, problem.dtype));
                assert!(
                    found == expected,
                    "{kernel:?}, {}: w[{n}, {place}] came out as {found}, not {expected}",
                    problem.title()
                );
            }
        }
    }
}

fn one_hot(kernel: Kernel) {
    every_combination(|bits, group, dtype| {
        let shape = Shape::new(rows(kernel), 16, inner(group), bits, group, dtype);
        check_one_hot(&Problem::random(shape, 1), kernel);
    });
}

#[test]
fn one_hot_rows() {
    one_hot(Kernel::Rows);
}

#[test]
fn one_hot_mma() {
    one_hot(Kernel::Mma);
}

#[test]
fn one_hot_split() {
    one_hot(WIDE);
}

#[test]
fn one_hot_with_scales_of_another_dtype() {
    for (dtype, scale_dtype) in FLOATS
        .into_iter()
        .flat_map(|x| FLOATS.map(|scales| (x, scales)))
    {
        for kernel in KERNELS {
            let shape = Shape {
                scale_dtype,
                ..Shape::new(rows(kernel), 16, 288, 3, 32, dtype)
            };
            check_one_hot(&Problem::random(shape, 2), kernel);
        }
    }
}

/// The steps of 512 values that the lanes of a simdgroup take together, and a second one begun.
#[test]
fn one_hot_beyond_a_step_of_lanes() {
    for bits in [3, 4, 5] {
        let shape = Shape::new(8, 16, 640, bits, 64, DType::F16);
        check_one_hot(&Problem::random(shape, 3), Kernel::Rows);
    }
}

/// Scale 1 and bias 0, then scale -1 and bias 2^B - 1: integer weights, integer sums.
#[test]
fn integers() {
    every_combination(|bits, group, dtype| {
        for kernel in DISTINCT {
            let shape = Shape::new(8, 16, inner(group), bits, group, dtype);
            let highest = ((1u32 << bits) - 1) as f32;
            for (scale, bias) in [(1.0, 0.0), (-1.0, highest)] {
                let problem = Problem::uniform(shape, scale, bias, 4);
                let mut random = Random::new(5);
                let problem = problem.with_x(
                    (0..8 * shape.k)
                        .map(|_| random.below(5) as f32 - 2.0)
                        .collect(),
                );
                for (y, exact) in problem.run(kernel).into_iter().zip(problem.reference()) {
                    let expected = round(exact as f32, dtype);
                    assert!(
                        y == expected,
                        "{kernel:?}, {}: {y}, not {expected}",
                        problem.title()
                    );
                }
            }
        }
    });
}

/// Weights next to 1, a fine step apart: a kernel that rounds weights to 16 bits loses the step.
#[test]
fn differences_of_weights_survive() {
    every_combination(|bits, group, dtype| {
        let step = match dtype {
            DType::F16 => (-13f32).exp2(),
            DType::BF16 => (-10f32).exp2(),
            _ => (-14f32).exp2(),
        };
        for kernel in DISTINCT {
            let problem = Problem::uniform(
                Shape::new(8, 16, inner(group), bits, group, dtype),
                step,
                1.0,
                6,
            );
            let mut random = Random::new(7);
            let places: Vec<(usize, usize)> = (0..8)
                .map(|_| {
                    let plus = random.below(problem.k as u32) as usize;
                    (
                        plus,
                        (plus + 1 + random.below(problem.k as u32 - 1) as usize) % problem.k,
                    )
                })
                .collect();
            let mut x = vec![0.0; 8 * problem.k];
            for (row, &(plus, minus)) in places.iter().enumerate() {
                x[row * problem.k + plus] = 1.0;
                x[row * problem.k + minus] = -1.0;
            }
            let y = problem.with_x(x).run(kernel);
            for (row, &(plus, minus)) in places.iter().enumerate() {
                for n in 0..problem.n {
                    let steps =
                        f64::from(problem.code(n, plus)) - f64::from(problem.code(n, minus));
                    let expected = (steps * f64::from(step)) as f32;
                    assert!(
                        y[row * problem.n + n] == expected,
                        "{kernel:?}, {}",
                        problem.title()
                    );
                }
            }
        }
    });
}

#[test]
fn float32_activations_keep_their_bits() {
    for kernel in KERNELS {
        let mut problem = Problem::uniform(Shape::new(8, 16, 256, 4, 64, DType::F32), 1.0, 0.0, 8);
        problem.codes.fill(1);
        let value = 1.0 + (-14f32).exp2();
        let mut x = vec![0.0; 8 * 256];
        for row in 0..8 {
            x[row * 256 + 31 * row] = value;
        }
        assert!(
            problem
                .with_x(x)
                .run(kernel)
                .into_iter()
                .all(|y| y == value),
            "{kernel:?}"
        );
    }
}

#[test]
fn zeros_and_extreme_codes() {
    for (bits, group, dtype) in [
        (2, 32, DType::F16),
        (3, 64, DType::F32),
        (5, 128, DType::BF16),
        (8, 32, DType::F32),
    ] {
        for kernel in KERNELS {
            let mut problem = Problem::uniform(
                Shape::new(8, 16, inner(group), bits, group, dtype),
                0.5,
                -2.0,
                9,
            );
            assert!(
                problem.run(kernel).into_iter().all(|y| y == 0.0),
                "{kernel:?}: x of zeros"
            );
            let highest = (1u32 << bits) - 1;
            for code in [0, highest] {
                problem.codes.fill(code);
                let y = problem.with_x(vec![1.0; 8 * problem.k]).run(kernel);
                let exact = problem.k as f32 * (0.5 * code as f32 - 2.0);
                assert!(
                    y.iter().all(|&y| y == round(exact, dtype)),
                    "{kernel:?}: codes of {code}"
                );
            }
        }
    }
}

/// On the same exact problem the kernels agree bit for bit.
#[test]
fn kernels_agree_on_integers() {
    let problem = Problem::uniform(Shape::new(8, 16, 544, 6, 32, DType::F32), 1.0, -31.0, 10);
    let mut random = Random::new(11);
    let problem = problem.with_x((0..8 * 544).map(|_| random.below(9) as f32 - 4.0).collect());
    let results = KERNELS.map(|kernel| problem.run(kernel));
    assert!(results.iter().all(|y| y == &results[0]));
}
