//! Gate and up from sums of integer codes: close to the unfactored kernels, exact where numbers allow
//! it, rows independent of each other, golden cases and refusals.

mod common;

use common::swiglu::{assert_swiglu, gaussian, pair};
use common::trellis::{
    Coded, activations, assert_close, assert_golden, assert_same, by_rows, exact_product, geometry,
    golden_weight, on_kernels,
};
use common::{FLOATS, floats, values};
use integration_tests::golden;
use mlx_kernels::trellis::kernels::{self, MixedOptions, Tail};
use mlx_kernels::trellis::{Selection, TrellisWeight};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype, ops};
use trellis_codec::{Axis, Layout};

fn weights([gate, up]: &[Coded; 2]) -> [&TrellisWeight; 2] {
    [&gate.weight, &up.weight]
}

fn row(x: &Array, [gate, up]: [&TrellisWeight; 2]) -> Array {
    kernels::gateup_factored_row(x, gate, up).unwrap()
}

fn rows(x: &Array, [gate, up]: [&TrellisWeight; 2]) -> Array {
    kernels::gateup_factored_rows(x, gate, up).unwrap()
}

fn mixed(x: &Array, [gate, up]: [&TrellisWeight; 2]) -> Array {
    kernels::gateup_mixed_factored(x, gate, up).unwrap()
}

/// The unfactored result with the same tail.
fn unfactored(x: &Array, [gate, up]: [&TrellisWeight; 2], tail: Tail) -> Array {
    let options = MixedOptions {
        tail,
        selection: Selection::UNREFINED,
        ..MixedOptions::default()
    };
    kernels::gateup_mixed(x, gate, up, options).unwrap()
}

#[test]
fn equal_widths_are_close_to_the_unfactored_kernel() {
    for (bits, block, shape, dtype) in [
        (2, 256, [67, 512], Dtype::Bfloat16),
        (3, 256, [5, 1536], Dtype::Float16),
        (4, 256, [8, 256], Dtype::Float32),
        (8, 32, [3, 96], Dtype::Float32),
    ] {
        let pair = pair([bits, bits], block, shape);
        let weights = weights(&pair);
        let x = activations(4, shape[1], dtype);
        on_kernels(|backend| {
            let context = format!("{backend} {bits} bits {dtype:?}");
            let expected = unfactored(&x, weights, Tail::Float);
            let one = by_rows(&x, 1, |x| row(x, weights));
            assert_close(&one, &expected, &context);
            let four = rows(&x, weights);
            assert_eq!(four.dtype(), dtype);
            assert_close(&four, &expected, &context);
            for count in 2..=3 {
                let some = rows(&x.index(..count), weights);
                assert_same(&some, &four.index(..count), &context);
            }
        });
    }
}

#[test]
fn different_widths_are_close_to_the_unfactored_kernel() {
    for (widths, block, dtype) in [
        ([2, 3], 256, Dtype::Bfloat16),
        ([3, 2], 256, Dtype::Float16),
        ([3, 4], 256, Dtype::Float32),
        ([1, 7], 64, Dtype::Bfloat16),
    ] {
        let pair = pair(widths, block, [5, 2 * block]);
        let weights = weights(&pair);
        let x = gaussian(4, 2 * block as i32, 1.0, dtype);
        on_kernels(|backend| {
            let context = format!("{backend} {widths:?} {dtype:?}");
            let four = mixed(&x, weights);
            assert_close(&four, &unfactored(&x, weights, Tail::Stock), &context);
            for count in 1..=3 {
                let some = mixed(&x.index(..count), weights);
                assert_same(&some, &four.index(..count), &context);
            }
        });
    }
}

#[test]
fn integer_activations_give_exact_sums() {
    // Small integers times integer codes add up exactly in float32: only the scale is rounded.
    for (widths, tail) in [([3, 3], Tail::Float), ([4, 3], Tail::Stock)] {
        let pair = pair(widths, 256, [7, 512]);
        let whole: Vec<f32> = (0..3 * 512).map(|i| ((i * 7) % 15) as f32 - 7.0).collect();
        for dtype in FLOATS {
            let x = floats(&whole, &[3, 512], dtype);
            let products: Vec<Array> = pair
                .iter()
                .map(|coded| exact_product(&whole, coded, dtype))
                .collect();
            on_kernels(|backend| {
                let weights = weights(&pair);
                let context = format!("{backend} {widths:?} {dtype:?}");
                let sums = [&products[0], &products[1]];
                let found = match tail {
                    Tail::Float => {
                        let one = by_rows(&x, 1, |x| row(x, weights));
                        assert_swiglu(&one, sums, tail, backend, &context);
                        rows(&x, weights)
                    }
                    Tail::Stock => mixed(&x, weights),
                };
                assert_swiglu(&found, sums, tail, backend, &context);
            });
        }
    }
}

#[test]
fn golden_cases_are_within_tolerance() {
    for case in golden::load("trellis_swiglu") {
        if case.int("axis") != 1 {
            continue;
        }
        let (gate, up) = (golden_weight(&case, "gate_"), golden_weight(&case, "up_"));
        let x = common::array(case.tensor("x"));
        let kernel = if case.int("gate_k") == case.int("up_k") {
            row
        } else {
            mixed
        };
        on_kernels(|backend| {
            let y = by_rows(&x, 1, |x| kernel(x, [&gate, &up]));
            assert_golden(&y, &case, &backend.to_string());
        });
    }
}

#[test]
fn leading_dimensions_stay_and_empty_inputs_give_empty_results() {
    let (equal, different) = (pair([2, 2], 256, [1, 256]), pair([2, 1], 256, [1, 256]));
    let x = gaussian(4, 256, 1.0, Dtype::Float16);
    let (deep, none) = (x.reshape(&[2, 1, 2, 256]).unwrap(), x.index(..0));
    on_kernels(|_| {
        type Kernel = fn(&Array, [&TrellisWeight; 2]) -> Array;
        let forms: [(Kernel, &[Coded; 2]); 2] = [(rows, &equal), (mixed, &different)];
        for (kernel, pair) in forms {
            let y = kernel(&x, weights(pair));
            let found = kernel(&deep, weights(pair));
            assert_same(
                &found,
                &y.reshape(&[2, 1, 2, 1]).unwrap(),
                "leading dimensions",
            );
            assert_eq!(kernel(&none, weights(pair)).shape(), [0, 1]);
        }
        assert_eq!(row(&none, weights(&equal)).shape(), [0, 1]);
        assert_eq!(row(&x.index(0), weights(&equal)).shape(), [1]);
    });
}

#[test]
fn numbers_that_are_not_finite_stay_in_their_row() {
    let pair = pair([3, 3], 256, [5, 512]);
    let good = gaussian(3, 512, 1.0, Dtype::Float32);
    let bad = ops::multiply(
        &good,
        floats(&[1.0, f32::NAN, 1.0], &[3, 1], Dtype::Float32),
    );
    on_kernels(|backend| {
        let found = rows(bad.as_ref().unwrap(), weights(&pair));
        let expected = rows(&good, weights(&pair));
        for row in [0, 2] {
            assert_same(
                &found.index(row),
                &expected.index(row),
                &backend.to_string(),
            );
        }
        assert!(
            values(&found.index(1)).iter().all(|y| y.is_nan()),
            "{backend}"
        );
    });
}

#[test]
fn refusals_name_the_kernel_and_what_it_takes() {
    let refused = |result: Result<Array, mlx_kernels::Error>, words: &[&str]| {
        let text = result.unwrap_err().to_string();
        for word in words {
            assert!(text.contains(word), "{text} lacks {word}");
        }
    };
    let x = |rows, inputs| activations(rows, inputs, Dtype::Float32);
    let (equal, different) = (pair([3, 3], 256, [4, 512]), pair([3, 2], 256, [4, 512]));
    let shorter = pair([3, 2], 256, [3, 512]);
    let along_outputs = Coded::random(geometry(3, 256, Axis::Output, Layout::Rows, [4, 512]));
    let one = "[trellis_gateup_factored_row]";
    let some = "[trellis_gateup_factored_rows]";
    let mixed = "[trellis_gateup_mixed_factored]";
    on_kernels(|_| {
        let [gate, up] = weights(&equal);
        let [wide, narrow] = weights(&different);
        refused(
            kernels::gateup_factored_row(&x(2, 512), gate, up),
            &[one, "is 2", "expected 1"],
        );
        for (count, found) in [(1, "is 1"), (5, "is 5")] {
            let result = kernels::gateup_factored_rows(&x(count, 512), gate, up);
            refused(result, &[some, found, "2 to 4"]);
        }
        let many = kernels::gateup_mixed_factored(&x(5, 512), wide, narrow);
        refused(many, &[mixed, "is 5", "1 to 4"]);

        let result = kernels::gateup_mixed_factored(&x(1, 512), gate, up);
        refused(result, &[mixed, "3 and 3", "different widths"]);
        let result = kernels::gateup_factored_row(&x(1, 512), wide, narrow);
        refused(result, &[one, "3 and 2", "equal widths"]);
        let result = kernels::gateup_factored_rows(&x(2, 512), wide, narrow);
        refused(result, &[some, "3 and 2", "equal widths"]);

        let short = &shorter[1].weight;
        let result = kernels::gateup_mixed_factored(&x(1, 512), wide, short);
        refused(result, &[mixed, "3 stored", "one axis-1 geometry"]);
        let turned = &along_outputs.weight;
        let result = kernels::gateup_factored_row(&x(1, 4), turned, turned);
        refused(result, &[one, "axis 0", "one axis-1 geometry"]);
        let result = kernels::gateup_factored_row(&x(1, 256), gate, up);
        refused(result, &[one, "256", "512"]);
    });
}
