//! The golden affine cases through the shaders in the simulator.

mod sim;

use integration_tests::golden;
use metal_sim::DType;
use sim::Tensor;
use sim::affine::{BITS, KERNELS, Kernel, Problem};

/// The case as a problem; codes are unpacked from the stored stream.
fn problem(case: &golden::Case) -> Problem {
    let (k, bits) = (case.int("k"), case.int("bits"));
    let words = case.tensor("w_q").u32();
    let words_per_row = k * bits / 32;
    let code = |n: usize, k: usize| {
        let bit =
            |i: usize| words[n * words_per_row + (k * bits + i) / 32] >> ((k * bits + i) % 32) & 1;
        (0..bits).map(|i| bit(i) << i).sum()
    };
    let dtype = match case.text("dtype") {
        "F32" => DType::F32,
        "F16" => DType::F16,
        _ => DType::BF16,
    };
    let n = case.int("n");
    let problem = Problem {
        m: case.int("m"),
        n,
        k,
        bits,
        group: case.int("group"),
        dtype,
        scale_dtype: dtype,
        x: case.tensor("x").to_f32(),
        codes: (0..n * k).map(|i| code(i / k, i % k)).collect(),
        scales: case.tensor("scales").to_f32(),
        biases: case.tensor("biases").to_f32(),
    };
    assert_eq!(problem.words(), words, "{}: packing", case.name);
    assert_eq!(
        Tensor::golden(case.tensor("x")),
        Tensor::floats(&problem.x, &[problem.m, k], dtype)
    );
    problem
}

fn check(bits: usize) {
    let mut runs = 0;
    for case in golden::load(&format!("affine_matmul_b{bits}")) {
        let problem = problem(&case);
        let (expected, tolerance) = (
            case.tensor("expected").to_f32(),
            case.tensor("tol").to_f32(),
        );
        for kernel in KERNELS {
            let tiles = if let Kernel::Split { tiles, .. } = kernel {
                tiles
            } else {
                1
            };
            if !kernel.takes(problem.m) || !problem.n.is_multiple_of(8 * tiles) {
                continue;
            }
            runs += 1;
            for (i, y) in problem.run(kernel).into_iter().enumerate() {
                let difference = (f64::from(y) - f64::from(expected[i])).abs();
                assert!(
                    difference <= f64::from(tolerance[i]),
                    "{}: {kernel:?}: element {i} is {y}, expected {} within {}",
                    case.name,
                    expected[i],
                    tolerance[i]
                );
            }
        }
    }
    assert!(runs > 40, "only {runs} runs");
}

#[test]
fn two_bits() {
    check(BITS[0]);
}

#[test]
fn three_bits() {
    check(BITS[1]);
}

#[test]
fn four_bits() {
    check(BITS[2]);
}

#[test]
fn five_bits() {
    check(BITS[3]);
}

#[test]
fn six_bits() {
    check(BITS[4]);
}

#[test]
fn eight_bits() {
    check(BITS[5]);
}
