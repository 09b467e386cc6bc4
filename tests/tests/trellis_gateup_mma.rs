//! Gate and up on the matrix unit: close to the kernels on ordinary lanes, exact where numbers allow
//! it, rows independent of each other, golden cases and refusals.

mod common;

use common::swiglu::{assert_swiglu, gaussian, pair};
use common::trellis::{
    Coded, activations, assert_close, assert_golden, assert_same, by_rows, exact_product, geometry,
    golden_weight, on_kernels,
};
use common::{FLOATS, floats, values};
use integration_tests::golden;
use mlx_kernels::Error;
use mlx_kernels::trellis::kernels::{self, MixedOptions, Tail};
use mlx_kernels::trellis::{Selection, TrellisWeight};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype, ops};
use trellis_codec::{Axis, Layout};

fn weights([gate, up]: &[Coded; 2]) -> [&TrellisWeight; 2] {
    [&gate.weight, &up.weight]
}

fn narrow(x: &Array, [gate, up]: [&TrellisWeight; 2]) -> Array {
    kernels::gateup_mma(x, gate, up).unwrap()
}

fn wide(x: &Array, [gate, up]: [&TrellisWeight; 2], blocks: i32) -> Array {
    kernels::gateup_mma_wide(x, gate, up, blocks).unwrap()
}

/// The unfactored result with the same tail, of any number of rows.
fn unfactored(x: &Array, [gate, up]: [&TrellisWeight; 2]) -> Array {
    let options = MixedOptions {
        tail: Tail::Float,
        selection: Selection::UNREFINED,
        ..MixedOptions::default()
    };
    by_rows(x, 4, |x| {
        kernels::gateup_mixed(x, gate, up, options).unwrap()
    })
}

#[test]
fn close_to_ordinary_lanes_and_every_row_as_if_alone() {
    for (widths, block, shape, dtype) in [
        ([2, 2], 256, [8, 512], Dtype::Bfloat16),
        ([3, 3], 256, [24, 512], Dtype::Float16),
        ([4, 4], 256, [264, 256], Dtype::Float32),
        ([2, 3], 256, [8, 768], Dtype::Bfloat16),
        ([7, 1], 64, [8, 256], Dtype::Float32),
    ] {
        let pair = pair(widths, block, shape);
        let weights = weights(&pair);
        let x = activations(8, shape[1], dtype);
        on_kernels(|backend| {
            let context = format!("{backend} {widths:?} {shape:?}");
            let eight = narrow(&x, weights);
            assert_eq!(eight.dtype(), dtype);
            assert_close(&eight, &unfactored(&x, weights), &context);
            for count in [1, 2, 4, 5] {
                let some = narrow(&x.index(8 - count..), weights);
                assert_same(&some, &eight.index(8 - count..), &context);
            }
        });
    }
}

#[test]
fn any_number_of_rows_has_the_same_bits() {
    let pair = pair([3, 4], 256, [40, 512]);
    let weights = weights(&pair);
    let x = activations(70, 512, Dtype::Bfloat16);
    on_kernels(|backend| {
        let expected = by_rows(&x, 8, |x| narrow(x, weights));
        for blocks in 1..=4 {
            for rows in [1, 8, 9, 24, 33, 70] {
                let found = wide(&x.index(..rows), weights, blocks);
                let context = format!("{backend} {blocks} blocks, {rows} rows");
                assert_same(&found, &expected.index(..rows), &context);
            }
        }
    });
}

#[test]
fn integer_activations_give_exact_sums() {
    // Small integers times integer codes add up exactly in float32: only the scale is rounded.
    let pair = pair([4, 3], 256, [8, 512]);
    let whole: Vec<f32> = (0..3 * 512).map(|i| ((i * 7) % 15) as f32 - 7.0).collect();
    for dtype in FLOATS {
        let x = floats(&whole, &[3, 512], dtype);
        let products = pair
            .each_ref()
            .map(|coded| exact_product(&whole, coded, dtype));
        on_kernels(|backend| {
            let context = format!("{backend} {dtype:?}");
            let found = narrow(&x, weights(&pair));
            assert_swiglu(&found, products.each_ref(), Tail::Float, backend, &context);
        });
    }
}

#[test]
fn golden_cases_are_within_tolerance() {
    let mut served = 0;
    for case in golden::load("trellis_swiglu") {
        let (gate, up) = (golden_weight(&case, "gate_"), golden_weight(&case, "up_"));
        if case.int("axis") != 1 || gate.outputs() % 8 != 0 || gate.inputs() % 256 != 0 {
            continue;
        }
        served += 1;
        let x = common::array(case.tensor("x"));
        on_kernels(|backend| {
            let y = by_rows(&x, 8, |x| narrow(x, [&gate, &up]));
            assert_golden(&y, &case, &backend.to_string());
        });
    }
    assert!(served > 0);
}

#[test]
fn leading_dimensions_offsets_and_empty_inputs() {
    let pair = pair([2, 2], 256, [8, 256]);
    let weights = weights(&pair);
    // Rows that start one element into a wider array, so at no multiple of four.
    let x = gaussian(6, 257, 1.0, Dtype::Float16).index((.., 1..));
    on_kernels(|backend| {
        let context = backend.to_string();
        let y = narrow(&x, weights);
        let deep = x.reshape(&[2, 1, 3, 256]).unwrap();
        let expected = y.reshape(&[2, 1, 3, 8]).unwrap();
        assert_same(&narrow(&deep, weights), &expected, &context);
        assert_same(&wide(&deep, weights, 2), &expected, &context);
        assert_same(&narrow(&x.index(3), weights), &y.index(3), &context);
        assert_eq!(wide(&x.index(..0), weights, 1).shape(), [0, 8]);
    });
}

#[test]
fn numbers_that_are_not_finite_stay_in_their_row() {
    let pair = pair([3, 3], 256, [8, 512]);
    let good = gaussian(3, 512, 1.0, Dtype::Float32);
    let column = floats(&[1.0, f32::NAN, 1.0], &[3, 1], Dtype::Float32);
    let bad = ops::multiply(&good, column).unwrap();
    on_kernels(|backend| {
        let context = backend.to_string();
        let (found, expected) = (narrow(&bad, weights(&pair)), narrow(&good, weights(&pair)));
        for row in [0, 2] {
            assert_same(&found.index(row), &expected.index(row), &context);
        }
        assert!(
            values(&found.index(1)).iter().all(|y| y.is_nan()),
            "{context}"
        );
    });
}

#[test]
fn refusals_name_the_kernel_and_what_it_takes() {
    let refused = |result: Result<Array, Error>, words: &[&str]| {
        let text = result.unwrap_err().to_string();
        for word in words {
            assert!(text.contains(word), "{text} lacks {word}");
        }
    };
    let x = |rows, inputs| activations(rows, inputs, Dtype::Float32);
    let fitting = pair([3, 2], 256, [8, 512]);
    let (few_rows, few_columns) = (pair([3, 3], 256, [12, 256]), pair([3, 3], 128, [8, 128]));
    let along_outputs = Coded::random(geometry(3, 256, Axis::Output, Layout::Rows, [8, 512]));
    let (op, geometry) = ("[trellis_gateup_mma]", "unsupported geometry");
    on_kernels(|_| {
        let [gate, up] = weights(&fitting);
        for count in [0, 9] {
            let found = format!("is {count}");
            let result = kernels::gateup_mma(&x(count, 512), gate, up);
            refused(result, &[op, &found, "1 to 8"]);
        }
        for (pair, inputs, found) in [
            (&few_rows, 256, "12 stored"),
            (&few_columns, 128, "128 columns"),
        ] {
            let [gate, up] = weights(pair);
            let result = kernels::gateup_mma(&x(1, inputs), gate, up);
            refused(result, &[op, geometry, found, "multiple of 8", "256"]);
        }
        let other = kernels::gateup_mma(&x(1, 512), gate, &few_rows[1].weight);
        refused(other, &[op, "12 stored", "one axis-1 geometry"]);
        let turned = &along_outputs.weight;
        let result = kernels::gateup_mma(&x(1, 8), turned, turned);
        refused(result, &[op, "axis 0", "one axis-1 geometry"]);
        let result = kernels::gateup_mma(&x(1, 256), gate, up);
        refused(result, &[op, "[1, 256]", "512"]);
        for blocks in [0, 5] {
            let found = format!("is {blocks}");
            let result = kernels::gateup_mma_wide(&x(9, 512), gate, up, blocks);
            refused(result, &["[trellis_gateup_mma_wide]", &found, "1 to 4"]);
        }
    });
}
