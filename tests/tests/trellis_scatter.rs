//! `trellis_scatter` and its shared form: bit equalities, golden cases, a float64 reference, edges and
//! refusals.

mod common;

use common::trellis::{
    Coded, activations, assert_golden, assert_product, assert_same, by_rows, check_views, geometry,
    golden_weight, on_kernels,
};
use common::{FLOATS, Random, floats, values};
use integration_tests::golden;
use mlx_kernels::trellis::kernels::{self, ScatterOptions};
use mlx_kernels::trellis::{Selection, TrellisWeight};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Contract, Format, Geometry, Layout};

fn coded(bits: u32, block: usize, shape: [usize; 2]) -> Coded {
    Coded::random(geometry(bits, block, Axis::Output, Layout::Rows, shape))
}

fn selection(number: u8) -> Selection {
    Selection::new(number).unwrap()
}

fn scatter(x: &Array, weight: &TrellisWeight, number: u8) -> Array {
    kernels::scatter(x, weight, selection(number), ScatterOptions::default()).unwrap()
}

fn shared(x: &Array, weight: &TrellisWeight, number: u8) -> Array {
    kernels::scatter_shared(x, weight, selection(number)).unwrap()
}

/// Holds the base form to the float64 product, and the shared form at these numbers of rows to its
/// bits.
fn check(coded: &Coded, dtype: Dtype, contract: Contract, number: u8, counts: &[i32]) {
    let (_, inputs) = coded.features();
    let x = activations(4, inputs, dtype);
    on_kernels(|backend| {
        let context = format!("{backend} {:?} {dtype:?} {number}", coded.geometry);
        let whole = scatter(&x, &coded.weight, number);
        assert_eq!(whole.dtype(), dtype);
        assert_product(&whole, &x, coded, contract, &context);
        for &rows in counts {
            let context = format!("{context}, {rows} rows");
            let (x, whole) = (x.index(..rows), whole.index(..rows));
            assert_same(&scatter(&x, &coded.weight, number), &whole, &context);
            assert_same(&shared(&x, &coded.weight, number), &whole, &context);
        }
    });
}

#[test]
fn every_width_and_edge_shape() {
    // Rows of codes that leave splits empty or short, and simdgroups that are not full.
    for (i, (bits, block, shape, counts)) in [
        (1, 256, [67, 1280], &[4][..]),
        (1, 32, [3, 1120], &[2]),
        (2, 256, [128, 768], &[3]),
        (3, 256, [1, 768], &[1, 2, 3, 4]),
        (3, 256, [2080, 256], &[2]),
        (4, 256, [200, 512], &[4]),
        (4, 8, [129, 40], &[1]),
        (5, 192, [5, 384], &[2]),
        (5, 256, [67, 256], &[3]),
        (6, 256, [3, 512], &[4]),
        (7, 256, [300, 512], &[2]),
        (7, 96, [2, 192], &[3]),
        (8, 256, [1, 1280], &[3]),
    ]
    .into_iter()
    .enumerate()
    {
        let coded = coded(bits, block, shape);
        check(&coded, FLOATS[i % 3], Contract::Unrefined, 13, counts);
    }
}

#[test]
fn state_widths_and_scale_types() {
    for (bits, state_bits, scales) in [
        (3, 16, Dtype::Bfloat16),
        (2, 9, Dtype::Float32),
        (1, 2, Dtype::Float16),
        (8, 16, Dtype::Float16),
    ] {
        let format = Format::new(bits, state_bits, 256).unwrap();
        let shape = Geometry::new(format, Axis::Output, Layout::Rows, 3, 512).unwrap();
        let codes = Coded::random(shape).codes;
        let coded = Coded::new(shape, codes, &[0.0, -511.0, 0.000_031], scales);
        check(&coded, Dtype::Float32, Contract::Unrefined, 6, &[2]);
    }
}

#[test]
fn selections_of_one_arithmetic_give_the_same_bits_in_both_layouts() {
    let rows_layout = coded(3, 256, [67, 512]);
    let pairs_layout = rows_layout.in_pairs();
    for dtype in [Dtype::Float32, Dtype::Bfloat16] {
        check(&rows_layout, dtype, Contract::ExactBf16, 0, &[3]);
        check(&rows_layout, dtype, Contract::Unrefined, 6, &[1, 2, 3, 4]);
        check(&rows_layout, dtype, Contract::Exact, 5, &[]);
    }
    let x = activations(3, 67, Dtype::Bfloat16);
    on_kernels(|backend| {
        for (first, others) in [(0, 0..=3), (4, 4..=4), (5, 5..=5), (6, 6..=13)] {
            let expected = scatter(&x, &rows_layout.weight, first);
            for number in others {
                for coded in [&rows_layout, &pairs_layout] {
                    let context = format!("{backend} {number} {:?}", coded.geometry.layout());
                    assert_same(&scatter(&x, &coded.weight, number), &expected, &context);
                    assert_same(&shared(&x, &coded.weight, number), &expected, &context);
                }
            }
        }
    });
}

#[test]
fn layouts_give_the_same_bits_at_every_number_of_rows() {
    let rows_layout = coded(3, 256, [67, 512]);
    let pairs_layout = rows_layout.in_pairs();
    let x = activations(16, 67, Dtype::Bfloat16);
    on_kernels(|backend| {
        for rows in [1, 2, 3, 4, 8, 16] {
            let x = x.index(..rows);
            let [found, expected] = [&pairs_layout, &rows_layout]
                .map(|coded| by_rows(&x, 4, |x| shared(x, &coded.weight, 13)));
            assert_same(&found, &expected, &format!("{backend} {rows} rows"));
        }
    });
}

#[test]
fn wide_codes_in_pairs_equal_those_in_rows() {
    for bits in [2, 6] {
        let rows_layout = coded(bits, 256, [5, 1024]);
        let pairs_layout = rows_layout.in_pairs();
        let x = activations(2, 5, Dtype::Float32);
        on_kernels(|backend| {
            let expected = scatter(&x, &rows_layout.weight, 0);
            let found = scatter(&x, &pairs_layout.weight, 0);
            assert_same(&found, &expected, &format!("{backend} {bits}"));
        });
    }
}

#[test]
fn tables_and_lifted_codes_change_no_bit() {
    for bits in [2, 3, 4, 5] {
        let coded = coded(bits, 256, [67, 512]);
        for magnitude in [1.0 / 32.0, 2.0] {
            let numbers: Vec<f32> = (Random::new(u64::from(bits)).floats(67).iter())
                .map(|number| number * magnitude)
                .collect();
            let x = floats(&numbers, &[1, 67], Dtype::Bfloat16);
            on_kernels(|backend| {
                let plain = scatter(&x, &coded.weight, 13);
                for (table, lifted) in [(false, false), (true, false), (true, true)] {
                    let options = ScatterOptions { table, lifted };
                    let found = kernels::scatter(&x, &coded.weight, selection(13), options);
                    let context = format!("{backend} {bits} {options:?}");
                    assert_same(&found.unwrap(), &plain, &context);
                }
            });
        }
    }
}

#[test]
fn the_floor_multiplies_by_state_numbers() {
    let shape = geometry(2, 256, Axis::Output, Layout::Rows, [2, 256]);
    let codes = Random::new(4).words(shape.words());
    let coded = Coded::new(shape, codes, &[1.0; 2], Dtype::Float16);
    let states = trellis_codec::decode_states(&shape, &coded.codes).unwrap();
    // One 1 in x picks a row.
    let x = floats(&[0.0, 1.0], &[1, 2], Dtype::Float32);
    on_kernels(|backend| {
        let y = values(&scatter(&x, &coded.weight, Selection::FLOOR.number()));
        let expected: Vec<f32> = states[256..]
            .iter()
            .map(|&state| f32::from(state))
            .collect();
        assert_eq!(y, expected, "{backend}");
    });
}

#[test]
fn golden_products_are_within_tolerance() {
    let mut cases = golden::load("trellis_axis0");
    cases.extend(golden::load("trellis_axis0_interleaved"));
    for case in cases {
        let (weight, x) = (golden_weight(&case, ""), common::array(case.tensor("x")));
        on_kernels(|backend| {
            let y = by_rows(&x, 4, |x| scatter(x, &weight, 13));
            assert_golden(&y, &case, &backend.to_string());
        });
    }
}

#[test]
fn leading_dimensions_stay_and_strides_and_offsets_do_not_matter() {
    let coded = coded(4, 256, [129, 256]);
    check_views(&coded, |x| scatter(x, &coded.weight, 13));
}

#[test]
fn empty_weights() {
    on_kernels(|_| {
        let no_outputs = coded(2, 256, [7, 0]);
        let y = scatter(&activations(2, 7, Dtype::Float16), &no_outputs.weight, 13);
        assert_eq!((y.shape(), y.dtype()), (&[2, 0][..], Dtype::Float16));
        let no_inputs = coded(2, 256, [0, 256]);
        let y = shared(&activations(2, 0, Dtype::Float16), &no_inputs.weight, 13);
        assert_eq!((y.shape(), y.dtype()), (&[2, 256][..], Dtype::Float16));
        assert!(values(&y).iter().all(|&y| y == 0.0));
    });
}

#[test]
fn numbers_that_are_not_finite_stay_in_their_row() {
    let coded = coded(3, 256, [67, 256]);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let good = activations(4, 67, Dtype::Float32);
        let mut mixed = values(&good);
        mixed[67 + 30] = bad;
        let mixed = floats(&mixed, &[4, 67], Dtype::Float32);
        on_kernels(|backend| {
            for kernel in [scatter, shared] {
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

fn refused(result: Result<Array, mlx_kernels::Error>, words: &[&str]) {
    let text = result.unwrap_err().to_string();
    for word in words {
        assert!(text.contains(word), "{text} lacks {word}");
    }
}

#[test]
fn refusals_name_the_kernel_and_what_it_takes() {
    let base = |x: &Array, weight: &TrellisWeight, selection| {
        kernels::scatter(x, weight, selection, ScatterOptions::default())
    };
    let good = coded(3, 256, [64, 512]);
    let x = |rows, inputs| activations(rows, inputs, Dtype::Float32);
    on_kernels(|_| {
        for (name, kernel) in [
            ("[trellis_scatter]", base as fn(&_, &_, _) -> _),
            ("[trellis_scatter_shared]", kernels::scatter_shared),
        ] {
            let run =
                |x: &Array, weight: &TrellisWeight, number| kernel(x, weight, selection(number));
            refused(run(&x(5, 64), &good.weight, 13), &[name, "5", "4"]);
            refused(run(&x(2, 512), &good.weight, 13), &[name, "512", "64"]);
            let scalar = Array::from_f32(1.0);
            refused(run(&scalar, &good.weight, 13), &[name, "last dimension"]);
            let whole = x(2, 64).as_dtype(Dtype::Int32).unwrap();
            refused(run(&whole, &good.weight, 13), &[name, "Int32", "float16"]);

            let other = geometry(3, 256, Axis::Input, Layout::Rows, [512, 512]);
            let other = Coded::random(other).weight;
            refused(run(&x(2, 512), &other, 13), &[name, "axis", "0", "1"]);
            let long = coded(5, 512, [2, 512]).weight;
            let words = [name, "80", "at most 32", "one simdgroup"];
            refused(run(&x(1, 2), &long, 13), &words);
            let format = Format::new(3, 13, 256).unwrap();
            let large = Geometry::new(format, Axis::Output, Layout::Rows, 2, 256).unwrap();
            let large = Coded::random(large).weight;
            refused(run(&x(1, 2), &large, 2), &[name, "13", "12"]);
        }
    });
}

#[test]
fn refused_options() {
    let run = |weight: &TrellisWeight, number, table, lifted| {
        let x = activations(1, 2, Dtype::Float32);
        let options = ScatterOptions { table, lifted };
        kernels::scatter(&x, weight, selection(number), options)
    };
    let weight = coded(3, 256, [2, 256]).weight;
    let format = Format::new(3, 13, 256).unwrap();
    let large = Geometry::new(format, Axis::Output, Layout::Rows, 2, 256).unwrap();
    let large = Coded::random(large).weight;
    on_kernels(|_| {
        let words = ["[trellis_scatter]", "5", "6 to 13"];
        refused(run(&weight, 5, true, false), &words);
        let words = ["[trellis_scatter]", "13", "at most 12"];
        refused(run(&large, 13, true, false), &words);
        assert!(run(&large, 13, false, true).is_ok());
    });
}
