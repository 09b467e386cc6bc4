//! `trellis_reduce` and its shared form: bit equalities, golden cases, a float64 reference, edges and
//! refusals.

mod common;

use common::trellis::{
    Coded, activations, assert_golden, assert_product, assert_same, by_rows, check_views, geometry,
    golden_weight, on_kernels,
};
use common::{FLOATS, Random, floats, values};
use integration_tests::golden;
use mlx_kernels::trellis::{Selection, TrellisWeight, kernels};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Contract, Format, Geometry, Layout};

fn coded(bits: u32, block: usize, shape: [usize; 2]) -> Coded {
    Coded::random(geometry(bits, block, Axis::Input, Layout::Rows, shape))
}

fn selection(number: u8) -> Selection {
    Selection::new(number).unwrap()
}

fn reduce(x: &Array, weight: &TrellisWeight, number: u8) -> Array {
    kernels::reduce(x, weight, selection(number)).unwrap()
}

fn shared(x: &Array, weight: &TrellisWeight, number: u8) -> Array {
    kernels::reduce_shared(x, weight, selection(number)).unwrap()
}

/// Holds both forms at 1 to 4 rows to the float64 product, each row to its bits alone, and the shared
/// form to the bits of the other.
fn check(coded: &Coded, dtype: Dtype, contract: Contract, number: u8) {
    let (_, inputs) = coded.features();
    let x = activations(4, inputs, dtype);
    on_kernels(|backend| {
        let context = format!("{backend} {:?} {dtype:?} {number}", coded.geometry);
        let whole = reduce(&x, &coded.weight, number);
        assert_eq!(whole.dtype(), dtype);
        assert_product(&whole, &x, coded, contract, &context);
        for rows in 1..=4 {
            let context = format!("{context}, {rows} rows");
            let x = x.index(..rows);
            let y = reduce(&x, &coded.weight, number);
            assert_same(&y, &whole.index(..rows), &context);
            assert_same(&shared(&x, &coded.weight, number), &y, &context);
        }
    });
}

#[test]
fn every_width_and_edge_shape() {
    for (i, (bits, block, shape)) in [
        (1, 256, [3, 512]),
        (2, 256, [64, 512]),
        (3, 256, [1, 256]),
        (4, 256, [67, 1536]),
        (5, 32, [5, 96]),
        (6, 64, [4, 1088]),
        (7, 192, [2, 1344]),
        (8, 256, [6, 256]),
    ]
    .into_iter()
    .enumerate()
    {
        let dtype = FLOATS[i % 3];
        check(&coded(bits, block, shape), dtype, Contract::Unrefined, 13);
    }
}

#[test]
fn state_widths_and_scale_types() {
    for (bits, state_bits, scales) in [
        (3, 16, Dtype::Bfloat16),
        (2, 9, Dtype::Float32),
        (1, 2, Dtype::Float16),
    ] {
        let format = Format::new(bits, state_bits, 256).unwrap();
        let shape = Geometry::new(format, Axis::Input, Layout::Rows, 3, 512).unwrap();
        let codes = Coded::random(shape).codes;
        let coded = Coded::new(shape, codes, &[0.0, -511.0, 0.000_031], scales);
        check(&coded, Dtype::Float32, Contract::Unrefined, 6);
    }
}

#[test]
fn weights_of_fewer_than_eight_words() {
    check(
        &coded(3, 32, [1, 32]),
        Dtype::Float16,
        Contract::Unrefined,
        13,
    );
}

#[test]
fn selections_of_one_arithmetic_give_the_same_bits() {
    let coded = coded(3, 256, [5, 512]);
    for dtype in [Dtype::Float32, Dtype::Bfloat16] {
        check(&coded, dtype, Contract::ExactBf16, 0);
        check(&coded, dtype, Contract::Unrefined, 6);
        check(&coded, dtype, Contract::Exact, 5);
        let x = activations(3, 512, dtype);
        on_kernels(|backend| {
            for (first, others) in [(0, 1..=3), (6, 7..=13)] {
                let expected = reduce(&x, &coded.weight, first);
                for number in others {
                    let context = format!("{backend} {dtype:?} {number}");
                    let found = reduce(&x, &coded.weight, number);
                    assert_same(&found, &expected, &context);
                }
            }
        });
    }
}

#[test]
fn the_floor_multiplies_by_state_numbers() {
    let shape = geometry(2, 256, Axis::Input, Layout::Rows, [2, 256]);
    let coded = Coded::new(
        shape,
        Random::new(4).words(shape.words()),
        &[1.0; 2],
        Dtype::Float16,
    );
    let states = trellis_codec::decode_states(&shape, &coded.codes).unwrap();
    // One 1 in x picks a state.
    let mut one = vec![0.0; 256];
    one[77] = 1.0;
    let x = floats(&one, &[1, 256], Dtype::Float32);
    on_kernels(|backend| {
        let y = values(&reduce(&x, &coded.weight, Selection::FLOOR.number()));
        let expected = [states[77], states[256 + 77]].map(f32::from);
        assert_eq!(y, expected, "{backend}");
    });
}

#[test]
fn golden_products_are_within_tolerance() {
    for case in golden::load("trellis_axis1") {
        let (weight, x) = (golden_weight(&case, ""), common::array(case.tensor("x")));
        on_kernels(|backend| {
            let y = by_rows(&x, 4, |x| reduce(x, &weight, 13));
            assert_golden(&y, &case, &backend.to_string());
        });
    }
}

#[test]
fn leading_dimensions_stay_and_strides_and_offsets_do_not_matter() {
    let coded = coded(4, 256, [5, 256]);
    check_views(&coded, |x| reduce(x, &coded.weight, 13));
    check_views(&coded, |x| shared(x, &coded.weight, 13));
}

#[test]
fn empty_weights() {
    on_kernels(|_| {
        let none = coded(2, 256, [0, 256]);
        let y = reduce(&activations(2, 256, Dtype::Float16), &none.weight, 13);
        assert_eq!((y.shape(), y.dtype()), (&[2, 0][..], Dtype::Float16));
    });
}

#[test]
fn numbers_that_are_not_finite_stay_in_their_row() {
    let coded = coded(3, 256, [5, 512]);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let good = activations(4, 512, Dtype::Float32);
        let mut mixed = values(&good);
        mixed[512 + 300] = bad;
        let mixed = floats(&mixed, &[4, 512], Dtype::Float32);
        on_kernels(|backend| {
            for kernel in [reduce, shared] {
                let (found, expected) = (
                    kernel(&mixed, &coded.weight, 13),
                    kernel(&good, &coded.weight, 13),
                );
                for row in [0, 2, 3] {
                    let context = format!("{backend} {bad} row {row}");
                    assert_same(&found.index(row), &expected.index(row), &context);
                }
                let row = values(&found.index(1));
                assert!(row.iter().all(|y| !y.is_finite()), "{backend} {row:?}");
            }
        });
    }
}

#[test]
fn refusals_name_the_kernel_and_what_it_takes() {
    let refused = |error: mlx_kernels::Error, words: &[&str]| {
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{text} lacks {word}");
        }
    };
    let good = coded(3, 256, [4, 512]);
    let x = |rows, inputs| activations(rows, inputs, Dtype::Float32);
    on_kernels(|_| {
        for (name, kernel) in [
            ("[trellis_reduce]", kernels::reduce as fn(&_, &_, _) -> _),
            ("[trellis_reduce_shared]", kernels::reduce_shared),
        ] {
            let run = |x: &Array, weight: &TrellisWeight, number| {
                kernel(x, weight, selection(number)).unwrap_err()
            };
            refused(run(&x(5, 512), &good.weight, 13), &[name, "5", "4"]);
            refused(run(&x(2, 256), &good.weight, 13), &[name, "256", "512"]);
            let scalar = Array::from_f32(1.0);
            refused(run(&scalar, &good.weight, 13), &[name, "last dimension"]);
            let whole = x(2, 512).as_dtype(Dtype::Int32).unwrap();
            refused(run(&whole, &good.weight, 13), &[name, "Int32", "float16"]);

            let other = geometry(3, 256, Axis::Output, Layout::Rows, [512, 512]);
            let other = Coded::random(other).weight;
            refused(run(&x(2, 512), &other, 13), &[name, "axis", "0", "1"]);
            let short = coded(4, 8, [2, 64]).weight;
            refused(run(&x(1, 64), &short, 13), &[name, "8", "multiple of 32"]);
            let format = Format::new(3, 13, 256).unwrap();
            let large = Geometry::new(format, Axis::Input, Layout::Rows, 2, 256).unwrap();
            let large = Coded::random(large).weight;
            refused(run(&x(1, 256), &large, 2), &[name, "13", "12"]);
        }
    });
}
