//! The factored products with codes along the outputs: float64, each other's bits, closeness to the
//! scatter.

mod common;

use common::trellis::{
    Coded, activations, assert_close, assert_golden, assert_product, assert_same, by_rows,
    geometry, golden_weight, on_kernels,
};
use common::{FLOATS, floats, values};
use integration_tests::golden;
use mlx_kernels::Error;
use mlx_kernels::trellis::kernels::{self, ScatterOptions};
use mlx_kernels::trellis::{Selection, TrellisWeight};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Contract, Format, Geometry, Layout};

fn coded(bits: u32, shape: [usize; 2]) -> Coded {
    Coded::random(geometry(bits, 256, Axis::Output, Layout::Rows, shape))
}

/// The kernel for x's rows and the layout.
fn factored(x: &Array, weight: &TrellisWeight) -> Array {
    let is_row = x.size() == weight.inputs() as usize;
    match (weight.geometry().layout(), is_row) {
        (Layout::Rows, true) => kernels::down_factored_row(x, weight),
        (Layout::Rows, false) => kernels::down_factored_rows(x, weight),
        (Layout::BlockPairs, true) => kernels::down_k3i_factored_row(x, weight),
        (Layout::BlockPairs, false) => kernels::down_k3i_factored_rows(x, weight),
    }
    .unwrap()
}

/// Holds the product of 4 rows to float64 and to the scatter's, and fewer rows to its bits.
fn check(coded: &Coded, dtype: Dtype, counts: &[i32]) {
    let (_, inputs) = coded.features();
    let x = activations(4, inputs, dtype);
    on_kernels(|backend| {
        let context = format!("{backend} {:?} {dtype:?}", coded.geometry);
        let whole = factored(&x, &coded.weight);
        assert_eq!(whole.dtype(), dtype);
        assert_product(&whole, &x, coded, Contract::Factored, &context);
        let options = ScatterOptions::default();
        let scatter = kernels::scatter(&x, &coded.weight, Selection::UNREFINED, options).unwrap();
        assert_close(&whole, &scatter, &context);
        for &rows in counts {
            let context = format!("{context}, {rows} rows");
            let found = by_rows(&x, rows, |x| factored(x, &coded.weight));
            assert_same(&found, &whole, &context);
        }
    });
}

#[test]
fn every_width_is_near_float64_and_the_scatter() {
    for (i, (bits, shape)) in [
        (1, [67, 1280]),
        (2, [129, 768]),
        (3, [1, 512]),
        (4, [67, 256]),
        (5, [9, 256]),
        (6, [130, 512]),
        (7, [3, 256]),
        (8, [67, 768]),
    ]
    .into_iter()
    .enumerate()
    {
        check(&coded(bits, shape), FLOATS[i % 3], &[1]);
    }
}

#[test]
fn a_row_has_its_bits_in_any_company_and_layout() {
    let rows_layout = coded(3, [67, 1024]);
    let pairs_layout = rows_layout.in_pairs();
    for dtype in FLOATS {
        check(&rows_layout, dtype, &[1, 2, 3]);
        check(&pairs_layout, dtype, &[1, 2, 3]);
        let x = activations(4, 67, dtype);
        on_kernels(|backend| {
            let [found, expected] =
                [&pairs_layout, &rows_layout].map(|coded| factored(&x, &coded.weight));
            assert_same(&found, &expected, &format!("{backend} {dtype:?}"));
        });
    }
}

#[test]
fn scales_of_every_kind() {
    let shape = geometry(4, 256, Axis::Output, Layout::Rows, [4, 256]);
    let codes = Coded::random(shape).codes;
    for scales in FLOATS {
        let coded = Coded::new(shape, codes.clone(), &[0.0, -511.0, 0.000_031, 1.0], scales);
        check(&coded, Dtype::Float32, &[]);
    }
}

#[test]
fn golden_products_are_within_tolerance() {
    let mut cases = golden::load("trellis_axis0");
    cases.extend(golden::load("trellis_axis0_interleaved"));
    for case in cases {
        let (weight, x) = (golden_weight(&case, ""), common::array(case.tensor("x")));
        on_kernels(|backend| {
            let y = by_rows(&x, 4, |x| factored(x, &weight));
            assert_golden(&y, &case, &backend.to_string());
        });
    }
}

#[test]
fn numbers_that_are_not_finite_stay_in_their_row() {
    let rows_layout = coded(3, [67, 512]);
    let pairs_layout = rows_layout.in_pairs();
    let good = activations(4, 67, Dtype::Float32);
    for bad in [f32::NAN, f32::INFINITY] {
        let mut mixed = values(&good);
        mixed[67 + 30] = bad;
        let mixed = floats(&mixed, &[4, 67], Dtype::Float32);
        on_kernels(|backend| {
            for coded in [&rows_layout, &pairs_layout] {
                let found = factored(&mixed, &coded.weight);
                let expected = factored(&good, &coded.weight);
                for row in [0, 2, 3] {
                    let context = format!("{backend} {bad} row {row}");
                    assert_same(&found.index(row), &expected.index(row), &context);
                }
                // A code of 0 makes NaN of an infinity.
                let row = values(&found.index(1));
                assert!(row.iter().all(|y| !y.is_finite()), "{backend} {row:?}");
            }
        });
    }
}

#[test]
fn leading_dimensions_and_products_without_rows_inputs_or_outputs() {
    let rows_layout = coded(2, [6, 512]);
    on_kernels(|_| {
        let x = activations(4, 6, Dtype::Float16);
        let deep = x.reshape(&[2, 2, 6]).unwrap();
        let y = factored(&deep, &rows_layout.weight);
        let expected = factored(&x, &rows_layout.weight)
            .reshape(&[2, 2, 512])
            .unwrap();
        assert_same(&y, &expected, "deep");

        let vector = kernels::down_factored_row(&x.index(0), &rows_layout.weight).unwrap();
        assert_same(&vector, &expected.index((0, 0)), "one dimension");
        for kernel in [kernels::down_factored_row, kernels::down_factored_rows] {
            let none = kernel(&x.index(..0), &rows_layout.weight).unwrap();
            assert_eq!(
                (none.shape(), none.dtype()),
                (&[0, 512][..], Dtype::Float16)
            );
        }
        let zeros = activations(3, 0, Dtype::Float16);
        let zeros = kernels::down_factored_rows(&zeros, &coded(2, [0, 256]).weight);
        assert_eq!(values(&zeros.unwrap()), [0.0; 3 * 256]);
        let none = kernels::down_factored_row(&x.index(0), &coded(2, [6, 0]).weight);
        assert_eq!(none.unwrap().shape(), [0]);
    });
}

fn refused(result: Result<Array, Error>, words: &[&str]) {
    let text = result.unwrap_err().to_string();
    for word in words {
        assert!(text.contains(word), "{text} lacks {word}");
    }
}

#[test]
fn refused_rows_and_types() {
    let (in_rows, in_pairs) = (coded(3, [64, 512]), coded(3, [64, 512]).in_pairs());
    let x = |rows, inputs| activations(rows, inputs, Dtype::Float32);
    on_kernels(|_| {
        type Kernel = fn(&Array, &TrellisWeight) -> Result<Array, Error>;
        let cases: [(&str, Kernel, &Coded, &[usize], &str); 4] = [
            (
                "row",
                kernels::down_factored_row,
                &in_rows,
                &[2],
                "expected 1",
            ),
            (
                "rows",
                kernels::down_factored_rows,
                &in_rows,
                &[1, 5],
                "2 to 4",
            ),
            (
                "k3i row",
                kernels::down_k3i_factored_row,
                &in_pairs,
                &[2],
                "expected 1",
            ),
            (
                "k3i rows",
                kernels::down_k3i_factored_rows,
                &in_pairs,
                &[1, 5],
                "2 to 4",
            ),
        ];
        for (name, kernel, coded, counts, range) in cases {
            let name = match name.strip_prefix("k3i ") {
                Some(rows) => format!("[trellis_down_k3i_factored_{rows}]"),
                None => format!("[trellis_down_factored_{name}]"),
            };
            for &count in counts {
                let words = [&name, "rows of x", &count.to_string(), range];
                refused(kernel(&x(count, 64), &coded.weight), &words);
            }
            let words = [&name, "[1, 512]", "64"];
            refused(kernel(&x(1, 512), &coded.weight), &words);
            let whole = x(1, 64).as_dtype(Dtype::Int32).unwrap();
            refused(kernel(&whole, &coded.weight), &[&name, "Int32", "float16"]);
        }
    });
}

#[test]
fn refused_codes() {
    let x = |inputs| activations(1, inputs, Dtype::Float32);
    let weight = |bits, state_bits, block, axis, layout| {
        let format = Format::new(bits, state_bits, block).unwrap();
        Coded::random(Geometry::new(format, axis, layout, 64, 1024).unwrap()).weight
    };
    on_kernels(|_| {
        let row = |weight: &TrellisWeight| {
            kernels::down_factored_row(&x(weight.inputs() as usize), weight)
        };
        let pairs = weight(3, 12, 256, Axis::Output, Layout::BlockPairs);
        let (name, needs) = ("[trellis_down_factored_row]", "axis 0, in rows");
        refused(row(&pairs), &[name, "in block pairs", needs]);
        let axis1 = weight(3, 12, 256, Axis::Input, Layout::Rows);
        refused(row(&axis1), &[name, "axis 1", needs]);
        let long = weight(5, 12, 512, Axis::Output, Layout::Rows);
        refused(row(&long), &[name, "80", "at most 32", "one simdgroup"]);

        let row = |weight: &TrellisWeight| kernels::down_k3i_factored_row(&x(64), weight);
        let (name, needs) = (
            "[trellis_down_k3i_factored_row]",
            "3-bit code, along axis 0, in block pairs",
        );
        let rows = weight(3, 12, 256, Axis::Output, Layout::Rows);
        refused(row(&rows), &[name, "in rows", needs]);
        let narrow = weight(2, 12, 256, Axis::Output, Layout::BlockPairs);
        refused(row(&narrow), &[name, "2-bit", needs]);
        let few_states = weight(3, 10, 256, Axis::Output, Layout::BlockPairs);
        let needs = "blocks of 256 and 12 state bits";
        refused(row(&few_states), &[name, "10 state bits", needs]);
    });
}
