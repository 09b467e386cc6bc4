//! The balanced 3-bit scatter: the bits of the general one, in both layouts, with every way of
//! decoding.

mod common;

use common::trellis::{
    Coded, activations, assert_golden, assert_product, assert_same, by_rows, geometry,
    golden_weight, on_kernels,
};
use common::{FLOATS, values};
use integration_tests::golden;
use mlx_kernels::Error;
use mlx_kernels::trellis::kernels::{self, ScatterOptions};
use mlx_kernels::trellis::{Selection, TrellisWeight};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Contract, Format, Geometry, Layout};

fn coded(shape: [usize; 2]) -> Coded {
    Coded::random(geometry(3, 256, Axis::Output, Layout::Rows, shape))
}

fn general(x: &Array, weight: &TrellisWeight) -> Array {
    kernels::scatter(x, weight, Selection::UNREFINED, ScatterOptions::default()).unwrap()
}

fn balanced(x: &Array, weight: &TrellisWeight) -> Array {
    kernels::scatter_balanced3(x, weight, ScatterOptions::default()).unwrap()
}

fn shared(x: &Array, weight: &TrellisWeight, code_table: bool) -> Array {
    kernels::scatter_balanced3_shared(x, weight, code_table).unwrap()
}

#[test]
fn bits_are_those_of_the_general_scatter() {
    // One block and odd numbers of them; splits that are empty, short and of several rows.
    for (i, shape) in [[1, 256], [67, 768], [128, 1280], [2080, 256]]
        .into_iter()
        .enumerate()
    {
        let coded = coded(shape);
        let x = activations(4, shape[0], FLOATS[i % 3]);
        on_kernels(|backend| {
            let context = format!("{backend} {shape:?}");
            let expected = general(&x, &coded.weight);
            assert_product(&expected, &x, &coded, Contract::Unrefined, &context);
            assert_same(&balanced(&x, &coded.weight), &expected, &context);
            assert_same(&shared(&x, &coded.weight, false), &expected, &context);
        });
    }
}

#[test]
fn layouts_rows_and_the_code_table_change_no_bit() {
    let rows_layout = coded([67, 512]);
    let pairs_layout = rows_layout.in_pairs();
    for dtype in FLOATS {
        let x = activations(16, 67, dtype);
        on_kernels(|backend| {
            let expected = by_rows(&x, 4, |x| general(x, &rows_layout.weight));
            for coded in [&rows_layout, &pairs_layout] {
                for rows in [1, 2, 3, 4, 8, 16] {
                    let layout = coded.geometry.layout();
                    let context = format!("{backend} {dtype:?} {layout:?} {rows} rows");
                    let (x, expected) = (x.index(..rows), expected.index(..rows));
                    let found = by_rows(&x, 4, |x| balanced(x, &coded.weight));
                    assert_same(&found, &expected, &context);
                    for code_table in [false, true] {
                        let found = by_rows(&x, 4, |x| shared(x, &coded.weight, code_table));
                        assert_same(&found, &expected, &context);
                    }
                }
            }
        });
    }
}

#[test]
fn tables_and_lifted_codes_change_no_bit() {
    let coded = coded([67, 512]).in_pairs();
    let x = activations(1, 67, Dtype::Bfloat16);
    on_kernels(|backend| {
        let plain = balanced(&x, &coded.weight);
        for (table, lifted) in [(false, false), (true, false), (true, true)] {
            let options = ScatterOptions { table, lifted };
            let found = kernels::scatter_balanced3(&x, &coded.weight, options).unwrap();
            assert_same(&found, &plain, &format!("{backend} {options:?}"));
        }
    });
}

#[test]
fn few_states() {
    let format = Format::new(3, 5, 256).unwrap();
    let shape = Geometry::new(format, Axis::Output, Layout::Rows, 9, 256).unwrap();
    let coded = Coded::random(shape);
    let x = activations(2, 9, Dtype::Float32);
    on_kernels(|backend| {
        let expected = general(&x, &coded.weight);
        for code_table in [false, true] {
            let found = shared(&x, &coded.weight, code_table);
            assert_same(&found, &expected, &format!("{backend} {code_table}"));
        }
    });
}

#[test]
fn golden_products_are_within_tolerance() {
    let mut cases = golden::load("trellis_axis0");
    cases.extend(golden::load("trellis_axis0_interleaved"));
    cases.retain(|case| case.int("k") == 3);
    assert!(!cases.is_empty());
    for case in cases {
        let (weight, x) = (golden_weight(&case, ""), common::array(case.tensor("x")));
        on_kernels(|backend| {
            let y = by_rows(&x, 4, |x| shared(x, &weight, true));
            assert_golden(&y, &case, &backend.to_string());
        });
    }
}

#[test]
fn numbers_that_are_not_finite_stay_in_their_row() {
    let coded = coded([67, 256]);
    let good = activations(4, 67, Dtype::Float32);
    let mut mixed = values(&good);
    mixed[2 * 67..3 * 67].fill(f32::NAN);
    mixed[66] = f32::INFINITY;
    let mixed = Array::from_slice(&mixed, &[4, 67]);
    on_kernels(|backend| {
        let (found, expected) = (
            shared(&mixed, &coded.weight, true),
            shared(&good, &coded.weight, true),
        );
        for row in [1, 3] {
            let context = format!("{backend} row {row}");
            assert_same(&found.index(row), &expected.index(row), &context);
        }
        for row in [0, 2] {
            let row = values(&found.index(row));
            assert!(row.iter().all(|y| !y.is_finite()), "{backend} {row:?}");
        }
    });
}

#[test]
fn leading_dimensions_and_products_without_rows_or_inputs() {
    let coded_rows = coded([6, 256]);
    on_kernels(|_| {
        let x = activations(4, 6, Dtype::Float16);
        let deep = x.reshape(&[2, 2, 6]).unwrap();
        let y = shared(&deep, &coded_rows.weight, false);
        let expected = general(&x, &coded_rows.weight);
        let expected = expected.reshape(&[2, 2, 256]).unwrap();
        assert_same(&y, &expected, "deep");
        let none = balanced(&deep.index((..0, ..)), &coded_rows.weight);
        assert_eq!(
            (none.shape(), none.dtype()),
            (&[0, 2, 256][..], Dtype::Float16)
        );
        let zeros = balanced(&activations(2, 0, Dtype::Float16), &coded([0, 256]).weight);
        assert_eq!(values(&zeros), [0.0; 512]);
    });
}

fn refused(result: Result<Array, Error>, words: &[&str]) {
    let text = result.unwrap_err().to_string();
    for word in words {
        assert!(text.contains(word), "{text} lacks {word}");
    }
}

#[test]
fn refusals_name_the_kernel_and_what_it_takes() {
    type Kernel = fn(&Array, &TrellisWeight) -> Result<Array, Error>;
    let base: Kernel = |x, weight| kernels::scatter_balanced3(x, weight, ScatterOptions::default());
    let shared: Kernel = |x, weight| kernels::scatter_balanced3_shared(x, weight, true);
    let x = |rows, inputs| activations(rows, inputs, Dtype::Float32);
    let weight = |bits, state_bits, block, axis| {
        let format = Format::new(bits, state_bits, block).unwrap();
        Coded::random(Geometry::new(format, axis, Layout::Rows, 512, 512).unwrap()).weight
    };
    on_kernels(|_| {
        for (name, kernel) in [
            ("[trellis_scatter_balanced3]", base),
            ("[trellis_scatter_balanced3_shared]", shared),
        ] {
            let good = weight(3, 12, 256, Axis::Output);
            refused(kernel(&x(5, 512), &good), &[name, "5", "1 to 4"]);
            refused(kernel(&x(1, 511), &good), &[name, "511", "512"]);
            let other = weight(3, 12, 256, Axis::Input);
            refused(kernel(&x(1, 512), &other), &[name, "axis", "0", "1"]);
            for (bits, state_bits, block) in [(2, 12, 256), (3, 13, 256), (3, 12, 128)] {
                let other = weight(bits, state_bits, block, Axis::Output);
                let needs = "3 bits a weight, blocks of 256 and at most 12 state bits";
                let found =
                    format!("{bits} bits a weight, {state_bits} state bits, blocks of {block}");
                refused(kernel(&x(1, 512), &other), &[name, &found, needs]);
            }
        }
    });
}
