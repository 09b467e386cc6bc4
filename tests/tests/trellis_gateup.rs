//! `trellis_gateup` in all its forms: bit equalities with two reductions and their `SwiGLU`, golden
//! cases, edges and refusals.

mod common;

use common::swiglu::{assert_swiglu, gaussian, pair};
use common::trellis::{
    Coded, activations, assert_golden, assert_same, by_rows, geometry, golden_weight, on_kernels,
};
use common::{FLOATS, floats, values};
use integration_tests::golden;
use mlx_kernels::Backend;
use mlx_kernels::trellis::kernels::{self, MixedOptions, Tail};
use mlx_kernels::trellis::{Selection, TrellisWeight};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype, ops};
use trellis_codec::{Axis, Format, Geometry, Layout};

fn selection(number: u8) -> Selection {
    Selection::new(number).unwrap()
}

/// Gate and up.
type Weights<'a> = [&'a TrellisWeight; 2];

fn weights([gate, up]: &[Coded; 2]) -> Weights<'_> {
    [&gate.weight, &up.weight]
}

fn base(x: &Array, [gate, up]: Weights<'_>, number: u8) -> Array {
    kernels::gateup(x, gate, up, selection(number)).unwrap()
}

fn shared(x: &Array, [gate, up]: Weights<'_>, number: u8) -> Array {
    kernels::gateup_shared(x, gate, up, selection(number)).unwrap()
}

fn mixed(x: &Array, [gate, up]: Weights<'_>, tail: Tail) -> Array {
    let options = MixedOptions {
        tail,
        ..MixedOptions::default()
    };
    kernels::gateup_mixed(x, gate, up, options).unwrap()
}

/// The two products, each by its own kernel.
fn products(x: &Array, weights: Weights<'_>, number: u8) -> [Array; 2] {
    weights.map(|weight| kernels::reduce_shared(x, weight, selection(number)).unwrap())
}

/// Holds the forms for equal widths to each other and to tail A, at 1 to 4 rows.
fn check_equal_widths(pair: &[Coded; 2], dtype: Dtype) {
    let (_, inputs) = pair[0].features();
    let x = activations(4, inputs, dtype);
    on_kernels(|backend| {
        for rows in 1..=4 {
            let (x, weights) = (x.index(..rows), weights(pair));
            let context = format!("{backend} {:?} {dtype:?} {rows} rows", pair[0].geometry);
            let found = base(&x, weights, 13);
            let [gate, up] = &products(&x, weights, 13);
            assert_swiglu(&found, [gate, up], Tail::Float, backend, &context);
            assert_same(&shared(&x, weights, 13), &found, &context);
            assert_same(&mixed(&x, weights, Tail::Float), &found, &context);
        }
    });
}

#[test]
fn equal_widths_and_edge_shapes() {
    for (bits, block, shape, dtype) in [
        (2, 256, [5, 512], Dtype::Float16),
        (3, 256, [1, 1536], Dtype::Bfloat16),
        (4, 256, [67, 256], Dtype::Float32),
        (7, 32, [3, 96], Dtype::Float16),
    ] {
        check_equal_widths(&pair([bits, bits], block, shape), dtype);
    }
}

#[test]
fn weights_of_fewer_than_eight_words() {
    check_equal_widths(&pair([2, 2], 32, [1, 32]), Dtype::Bfloat16);
}

#[test]
fn mixed_widths_have_the_bits_of_two_products_and_their_swiglu() {
    for ([gate, up], block, rows, dtype) in [
        ([2, 3], 256, 5, Dtype::Bfloat16),
        ([3, 4], 256, 4, Dtype::Float16),
        ([4, 2], 256, 3, Dtype::Float32),
        ([1, 8], 192, 2, Dtype::Bfloat16),
        ([5, 6], 64, 1, Dtype::Float16),
    ] {
        let pair = pair([gate, up], block, [rows, 3 * block]);
        for deviation in [0.5, 8.0] {
            let x = gaussian(4, 3 * block as i32, deviation, dtype);
            on_kernels(|backend| {
                for count in 1..=4 {
                    let (x, weights) = (x.index(..count), weights(&pair));
                    let context = format!("{backend} {gate} {up} {deviation} {count} rows");
                    let found = mixed(&x, weights, Tail::Stock);
                    let [gate, up] = &products(&x, weights, 13);
                    assert_swiglu(&found, [gate, up], Tail::Stock, backend, &context);
                }
            });
        }
    }
}

#[test]
fn the_stock_tail_at_saturation_and_in_both_branches() {
    // One 1 a row picks a column of weights, whose scales make gates of all sizes.
    let shape = geometry(3, 256, Axis::Input, Layout::Rows, [64, 256]);
    let scales: Vec<f32> = (0..64).map(|row| (row as f32 - 32.0) * 1.5).collect();
    let codes = Coded::random(shape).codes;
    let gate = Coded::new(shape, codes.clone(), &scales, Dtype::Float16);
    let up = Coded::new(shape, codes, &[1.0; 64], Dtype::Float16);
    for dtype in FLOATS {
        let mut ones = vec![0.0; 4 * 256];
        (0..4).for_each(|row| ones[row * 256 + 60 * row] = 1.0);
        let x = floats(&ones, &[4, 256], dtype);
        on_kernels(|backend| {
            let weights = [&gate.weight, &up.weight];
            for tail in [Tail::Float, Tail::Stock] {
                let found = mixed(&x, weights, tail);
                let [gate, up] = &products(&x, weights, 13);
                let context = format!("{backend} {dtype:?} {tail:?}");
                assert_swiglu(&found, [gate, up], tail, backend, &context);
            }
        });
    }
}

#[test]
fn selections_of_one_arithmetic_give_the_same_bits() {
    let pair = pair([3, 3], 256, [5, 256]);
    let x = activations(2, 256, Dtype::Float16);
    on_kernels(|backend| {
        let weights = weights(&pair);
        for (first, others) in [(0, 1..=3), (5, 5..=5), (6, 7..=13)] {
            let expected = base(&x, weights, first);
            let [gate, up] = &products(&x, weights, first);
            let context = format!("{backend} {first}");
            assert_swiglu(&expected, [gate, up], Tail::Float, backend, &context);
            for number in others {
                let context = format!("{backend} {number}");
                assert_same(&base(&x, weights, number), &expected, &context);
            }
        }
    });
}

#[test]
fn tables_and_lifted_integers_change_no_bit() {
    for bits in [2, 3, 4] {
        on_kernels(|backend| {
            // The whole shape of the layers that they are for, where that takes no minutes.
            let shape = match backend {
                Backend::Sim => [21, 512],
                _ => [17408, 5120],
            };
            let equal = pair([bits, bits], 256, shape);
            let other = pair([bits, bits % 3 + 2], 256, shape);
            for magnitude in [1.0 / 32.0, 2.0] {
                let x = gaussian(1, shape[1] as i32, magnitude, Dtype::Bfloat16);
                let context = format!("{backend} {bits} {magnitude}");
                let [gate, up] = weights(&equal);
                let table = kernels::gateup_table(&x, gate, up).unwrap();
                assert_same(&table, &base(&x, weights(&equal), 13), &context);

                let [gate, up] = weights(&other);
                let options = MixedOptions {
                    lifted: false,
                    ..MixedOptions::default()
                };
                let converted = kernels::gateup_mixed(&x, gate, up, options).unwrap();
                let lifted = mixed(&x, weights(&other), Tail::Stock);
                assert_same(&converted, &lifted, &context);
            }
        });
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
        on_kernels(|backend| {
            for tail in [Tail::Float, Tail::Stock] {
                // One row at a time: one compilation on the simulator.
                let y = by_rows(&x, 1, |x| mixed(x, [&gate, &up], tail));
                assert_golden(&y, &case, &format!("{backend} {tail:?}"));
            }
        });
    }
}

#[test]
fn scales_of_different_types_are_widened() {
    let pair = pair([2, 3], 256, [3, 256]);
    let [gate, up] = weights(&pair);
    let wide = TrellisWeight::new(
        up.codes().clone(),
        up.scales().as_dtype(Dtype::Float32).unwrap(),
        &pair[1].geometry.entry(),
    )
    .unwrap();
    let x = activations(2, 256, Dtype::Bfloat16);
    on_kernels(|backend| {
        let found = mixed(&x, [gate, &wide], Tail::Stock);
        assert_same(
            &found,
            &mixed(&x, [gate, up], Tail::Stock),
            &backend.to_string(),
        );
    });
}

#[test]
fn leading_dimensions_stay_and_offsets_do_not_matter() {
    let pair = pair([2, 2], 256, [5, 256]);
    on_kernels(|_| {
        let weights = weights(&pair);
        let plain = gaussian(4, 256, 1.0, Dtype::Float32);
        let y = mixed(&plain, weights, Tail::Stock);
        let deep = mixed(
            &plain.reshape(&[2, 1, 2, 256]).unwrap(),
            weights,
            Tail::Stock,
        );
        assert_same(
            &deep,
            &y.reshape(&[2, 1, 2, 5]).unwrap(),
            "leading dimensions",
        );
        let one = mixed(&plain.index(1), weights, Tail::Stock);
        assert_same(&one, &y.index(1), "a vector");
        // The same numbers from an odd element on.
        let long = ops::concatenate(
            &[
                Array::from_slice(&[0.0_f32], &[1]),
                plain.flatten(None, None).unwrap(),
            ],
            0,
        );
        let moved = long.unwrap().index(1..).reshape(&[4, 256]).unwrap();
        assert_same(&mixed(&moved, weights, Tail::Stock), &y, "an odd offset");
        let none = plain.reshape(&[1, 4, 256]).unwrap().index((.., ..0, ..));
        for y in [
            base(&none, weights, 13),
            shared(&none, weights, 13),
            mixed(&none, weights, Tail::Stock),
            kernels::gateup_table(&none, weights[0], weights[1]).unwrap(),
        ] {
            assert_eq!((y.shape(), y.dtype()), (&[1, 0, 5][..], Dtype::Float32));
        }
    });
}

#[test]
fn numbers_that_are_not_finite_stay_in_their_row() {
    let pair = pair([3, 2], 256, [5, 512]);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let good = gaussian(3, 512, 1.0, Dtype::Bfloat16);
        let mut numbers = values(&good);
        numbers[512 + 300] = bad;
        let beside = floats(&numbers, &[3, 512], Dtype::Bfloat16);
        on_kernels(|backend| {
            let found = mixed(&beside, weights(&pair), Tail::Stock);
            let expected = mixed(&good, weights(&pair), Tail::Stock);
            for row in [0, 2] {
                let context = format!("{backend} {bad} row {row}");
                assert_same(&found.index(row), &expected.index(row), &context);
            }
            if bad.is_nan() {
                assert!(
                    values(&found.index(1)).iter().all(|y| y.is_nan()),
                    "{backend}"
                );
            }
        });
    }
}

type Kernel = fn(&Array, &TrellisWeight, &TrellisWeight) -> Result<Array, mlx_kernels::Error>;

#[test]
fn refusals_name_the_kernel_and_what_it_takes() {
    let refused = |result: Result<Array, mlx_kernels::Error>, words: &[&str]| {
        let text = result.unwrap_err().to_string();
        for word in words {
            assert!(text.contains(word), "{text} lacks {word}");
        }
    };
    let x = |rows, inputs| activations(rows, inputs, Dtype::Float32);
    let equal = pair([3, 3], 256, [4, 512]);
    let other = pair([3, 2], 256, [4, 512]);
    let shorter = pair([3, 3], 256, [3, 512]);
    let along_outputs = Coded::random(geometry(3, 256, Axis::Output, Layout::Rows, [4, 512]));
    let default = Selection::default();
    let forms: [(&str, i32, Kernel); 4] = [
        ("[trellis_gateup]", 4, |x, g, u| {
            kernels::gateup(x, g, u, Selection::default())
        }),
        ("[trellis_gateup_shared]", 4, |x, g, u| {
            kernels::gateup_shared(x, g, u, Selection::default())
        }),
        ("[trellis_gateup_table]", 1, kernels::gateup_table),
        ("[trellis_gateup_mixed]", 4, |x, g, u| {
            kernels::gateup_mixed(x, g, u, MixedOptions::default())
        }),
    ];
    on_kernels(|_| {
        let [gate, up] = weights(&equal);
        for (name, most, kernel) in forms {
            let many = most as usize + 1;
            let (found, limit) = (many.to_string(), most.to_string());
            refused(kernel(&x(many, 512), gate, up), &[name, &found, &limit]);
            refused(kernel(&x(1, 256), gate, up), &[name, "256", "512"]);
            let short = &shorter[1].weight;
            refused(
                kernel(&x(1, 512), gate, short),
                &[name, "4 stored", "3 stored", "one axis-1 geometry"],
            );
            let turned = &along_outputs.weight;
            refused(
                kernel(&x(1, 4), turned, turned),
                &[name, "axis 0", "one axis-1 geometry"],
            );
            if name != "[trellis_gateup_mixed]" {
                let narrow = &other[1].weight;
                refused(
                    kernel(&x(1, 512), gate, narrow),
                    &[name, "3 and 2", "equal widths"],
                );
            }
        }
        let blocks = pair([4, 4], 8, [2, 64]);
        let [gate, up] = weights(&blocks);
        refused(
            kernels::gateup(&x(1, 64), gate, up, default),
            &["8", "multiple of 32"],
        );
        let format = Format::new(3, 13, 256).unwrap();
        let large = Geometry::new(format, Axis::Input, Layout::Rows, 2, 256).unwrap();
        let large = Coded::random(large).weight;
        refused(
            kernels::gateup_table(&x(1, 256), &large, &large),
            &["13", "12"],
        );
        let table = kernels::gateup(&x(1, 256), &large, &large, Selection::TABLE);
        refused(table, &["[trellis_gateup]", "13", "12"]);
    });
}
