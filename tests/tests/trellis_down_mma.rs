//! The matrix-unit kernels for codes along the outputs: against float64, and against each other.

mod common;

use common::trellis::{
    Coded, activations, assert_golden, assert_product, assert_same, by_rows, geometry,
    golden_weight, on_kernels,
};
use common::{FLOATS, values};
use integration_tests::golden;
use mlx_kernels::trellis::kernels::{self, Pass};
use mlx_kernels::{Error, trellis::TrellisWeight};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Contract, Format, Geometry, Layout};

/// Random codes along 512 outputs.
fn coded(bits: u32, inputs: usize) -> Coded {
    let extents = [inputs, 512];
    Coded::random(geometry(bits, 256, Axis::Output, Layout::Rows, extents))
}

fn rows_of(x: &Array, first: i32, count: i32) -> Array {
    x.index(first..first + count)
}

#[test]
fn every_width_is_near_float64() {
    for bits in 1..=8 {
        let coded = coded(bits, 72);
        let dtype = FLOATS[bits as usize % 3];
        on_kernels(|backend| {
            let x = activations(5, 72, dtype);
            let y = kernels::down_mma(&x, &coded.weight).unwrap();
            assert_eq!((y.shape(), y.dtype()), (&[5, 512][..], dtype));
            let context = format!("{backend} {bits} bits");
            assert_product(&y, &x, &coded, Contract::Factored, &context);
        });
    }
}

#[test]
fn golden_products_are_within_tolerance() {
    let mut cases = golden::load("trellis_axis0");
    cases.extend(golden::load("trellis_axis0_interleaved"));
    for case in cases {
        let (weight, x) = (golden_weight(&case, ""), common::array(case.tensor("x")));
        on_kernels(|backend| {
            let y = by_rows(&x, 8, |x| narrow(x, &weight).unwrap());
            assert_golden(&y, &case, &backend.to_string());
        });
    }
}

#[test]
fn rows_that_are_no_multiple_of_eight() {
    // A last step of one row or three; splits without rows; x and scales in constant memory.
    for (inputs, bits) in [(1, 2), (3, 4), (7, 3), (67, 3), (129, 2)] {
        let coded = coded(bits, inputs);
        on_kernels(|backend| {
            for rows in [1, 8] {
                let x = activations(rows, inputs, Dtype::Float32);
                let y = kernels::down_mma(&x, &coded.weight).unwrap();
                let context = format!("{backend} {rows} rows of {inputs}");
                assert_product(&y, &x, &coded, Contract::Factored, &context);
            }
        });
    }
}

#[test]
fn a_row_has_its_bits_in_any_company_and_layout() {
    let rows_layout = coded(3, 67);
    let pairs_layout = rows_layout.in_pairs();
    on_kernels(|backend| {
        let x = activations(8, 67, Dtype::Bfloat16);
        let y = kernels::down_mma(&x, &rows_layout.weight).unwrap();
        for rows in [1, 3, 4, 8] {
            let context = format!("{backend} {rows} rows");
            let few = rows_of(&x, 8 - rows, rows);
            let expected = rows_of(&y, 8 - rows, rows);
            let found = kernels::down_mma(&few, &rows_layout.weight).unwrap();
            assert_same(&found, &expected, &context);
            let found = kernels::down_k3i_mma(&few, &pairs_layout.weight).unwrap();
            assert_same(&found, &expected, &context);
        }
    });
}

#[test]
fn a_row_keeps_its_bits_beside_nan_and_infinity() {
    let coded = coded(3, 72);
    let mut odd = values(&activations(8, 72, Dtype::Float32));
    odd[72..144].fill(f32::NAN);
    odd[5 * 72 + 3] = f32::INFINITY;
    on_kernels(|backend| {
        let x = activations(8, 72, Dtype::Float32);
        let bad = Array::from_slice(&odd, &[8, 72]);
        let narrow = |x: &Array| kernels::down_mma(x, &coded.weight).unwrap();
        let wide = |x: &Array| kernels::down_mma_wide(x, &coded.weight, Pass::ONE_BLOCK).unwrap();
        for kernel in [&narrow as &dyn Fn(&Array) -> Array, &wide] {
            let (y, beside) = (kernel(&x), kernel(&bad));
            for row in [0, 2, 3, 4, 6, 7] {
                let context = format!("{backend} row {row}");
                assert_same(&rows_of(&beside, row, 1), &rows_of(&y, row, 1), &context);
            }
            assert!(values(&rows_of(&beside, 1, 1)).iter().all(|y| y.is_nan()));
            // A code of 0 makes NaN of an infinity.
            assert!(
                values(&rows_of(&beside, 5, 1))
                    .iter()
                    .all(|y| !y.is_finite())
            );
        }
    });
}

#[test]
fn leading_dimensions_and_strides() {
    let coded = coded(2, 64);
    on_kernels(|backend| {
        let x = activations(6, 64, Dtype::Float16);
        let y = kernels::down_mma(&x, &coded.weight).unwrap();
        let deep = x.reshape(&[2, 1, 3, 64]).unwrap();
        let found = kernels::down_mma(&deep, &coded.weight).unwrap();
        let expected = y.reshape(&[2, 1, 3, 512]).unwrap();
        assert_same(&found, &expected, &format!("{backend} deep"));

        let columns = Array::from_slice(&values(&x.t()), &[64, 6]);
        let strided = columns.as_dtype(Dtype::Float16).unwrap().t();
        for found in [
            kernels::down_mma(&strided, &coded.weight),
            kernels::down_mma_wide(&strided, &coded.weight, Pass::ONE_BLOCK),
        ] {
            assert_same(&found.unwrap(), &y, &format!("{backend} strided"));
        }
    });
}

/// Holds every row of the wide kernel to the narrow one, at each number of rows.
fn wide_is_narrow(coded: &Coded, dtype: Dtype, passes: &[(i32, i32)], counts: &[i32]) {
    let (_, inputs) = coded.features();
    let most = *counts.iter().max().unwrap();
    on_kernels(|backend| {
        let x = activations(most as usize, inputs, dtype);
        let expected = by_rows(&x, 8, |x| narrow(x, &coded.weight).unwrap());
        for &(matrices, blocks) in passes {
            for &rows in counts {
                let pass = Pass::new(matrices, blocks).unwrap();
                let found = wide(&rows_of(&x, 0, rows), &coded.weight, pass).unwrap();
                let context = format!("{backend} {pass:?} {rows} rows of {inputs}");
                assert_same(&found, &rows_of(&expected, 0, rows), &context);
            }
        }
    });
}

fn narrow(x: &Array, weight: &TrellisWeight) -> Result<Array, Error> {
    match weight.geometry().layout() {
        Layout::Rows => kernels::down_mma(x, weight),
        Layout::BlockPairs => kernels::down_k3i_mma(x, weight),
    }
}

fn wide(x: &Array, weight: &TrellisWeight, pass: Pass) -> Result<Array, Error> {
    match weight.geometry().layout() {
        Layout::Rows => kernels::down_mma_wide(x, weight, pass),
        Layout::BlockPairs => kernels::down_k3i_mma_wide(x, weight, pass),
    }
}

#[test]
fn wide_rows_are_narrow_rows() {
    let counts = [1, 7, 8, 9, 16, 17, 24, 33, 64, 130];
    let passes = [(16, 1), (8, 2), (8, 3), (16, 2)];
    let weight = coded(3, 72);
    wide_is_narrow(&weight, Dtype::Bfloat16, &passes, &counts);
    wide_is_narrow(&weight.in_pairs(), Dtype::Float16, &passes[..2], &[8, 24]);
}

#[test]
fn wide_rows_are_narrow_rows_at_other_widths() {
    // Splits without rows, windows at other offsets and across the end of the block.
    for bits in [1, 2, 4, 5, 7, 8] {
        let passes = [(4, 8), (8, 1)];
        wide_is_narrow(&coded(bits, 8), Dtype::Float32, &passes, &[9]);
    }
    let format = Format::new(3, 9, 256).unwrap();
    let few_states = Geometry::new(format, Axis::Output, Layout::Rows, 8, 256).unwrap();
    wide_is_narrow(&Coded::random(few_states), Dtype::Float32, &[(8, 2)], &[9]);
}

/// Holds the message of a refusal to what it must say.
fn refused(result: Result<Array, Error>, parts: &[&str]) {
    let text = result.unwrap_err().to_string();
    for part in parts {
        assert!(text.contains(part), "{text}: expected {part}");
    }
}

#[test]
fn refusals() {
    let axis1 = Coded::random(geometry(3, 256, Axis::Input, Layout::Rows, [512, 256]));
    let (rows, pairs) = (coded(3, 64), coded(3, 64).in_pairs());
    let wide_pairs = coded(2, 64).in_pairs();
    on_kernels(|_| {
        let x = |rows| activations(rows, 64, Dtype::Float32);
        let pass = Pass::ONE_BLOCK;
        let op = "[trellis_down_mma]";
        for count in [0, 9] {
            let found = kernels::down_mma(&x(count), &rows.weight);
            refused(found, &[op, "rows of x", &count.to_string(), "1 to 8"]);
            let found = kernels::down_k3i_mma(&x(count), &pairs.weight);
            refused(
                found,
                &["[trellis_down_k3i_mma]", &count.to_string(), "1 to 8"],
            );
        }
        refused(
            kernels::down_mma(&x(1), &pairs.weight),
            &[op, "axis 0, in rows"],
        );
        let wide = activations(1, 256, Dtype::Float32);
        refused(
            kernels::down_mma(&wide, &axis1.weight),
            &[op, "axis 1", "axis 0, in rows"],
        );
        refused(
            kernels::down_mma(&wide, &rows.weight),
            &[op, "[1, 256]", "64"],
        );
        let whole = x(1).as_dtype(Dtype::Int32).unwrap();
        refused(
            kernels::down_mma(&whole, &rows.weight),
            &[op, "Int32", "float16"],
        );

        let op = "[trellis_down_k3i_mma]";
        let needs = "3-bit code, along axis 0, in block pairs";
        refused(kernels::down_k3i_mma(&x(1), &rows.weight), &[op, needs]);
        refused(
            kernels::down_k3i_mma(&x(1), &wide_pairs.weight),
            &[op, "2-bit", needs],
        );

        let op = "[trellis_down_mma_wide]";
        refused(
            kernels::down_mma_wide(&x(9), &pairs.weight, pass),
            &[op, "in rows"],
        );
        let deep = x(8).reshape(&[2, 4, 64]).unwrap();
        for x in [x(0), x(1).reshape(&[64]).unwrap(), deep] {
            let shape = format!("{:?}", x.shape());
            refused(
                kernels::down_mma_wide(&x, &rows.weight, pass),
                &[op, &shape, "2 dimensions, [M, 64]", "at least one row"],
            );
        }
        let op = "[trellis_down_k3i_mma_wide]";
        refused(
            kernels::down_k3i_mma_wide(&x(9), &rows.weight, pass),
            &[op, needs],
        );
    });
}

#[test]
fn refused_geometries() {
    let weight = |block, state_bits, inputs| {
        let format = Format::new(3, state_bits, block).unwrap();
        let geometry = Geometry::new(format, Axis::Output, Layout::Rows, inputs, 512).unwrap();
        Coded::random(geometry).weight
    };
    on_kernels(|_| {
        let x = |inputs| activations(1, inputs, Dtype::Float32);
        for (block, state_bits) in [(128, 12), (256, 13)] {
            let weight = weight(block, state_bits, 64);
            let parts = ["unsupported geometry", "blocks of 256", "12 state bits"];
            refused(kernels::down_mma(&x(64), &weight), &parts);
            refused(
                kernels::down_mma_wide(&x(64), &weight, Pass::ONE_BLOCK),
                &parts,
            );
        }
        let found = kernels::down_mma_wide(&x(67), &weight(256, 12, 67), Pass::ONE_BLOCK);
        refused(
            found,
            &["unsupported geometry is 67 stored rows", "multiple of 8"],
        );
    });
}

#[test]
fn products_without_inputs_or_outputs() {
    let weight = |extents| Coded::random(geometry(3, 256, Axis::Output, Layout::Rows, extents));
    on_kernels(|_| {
        let x = activations(2, 0, Dtype::Float16);
        let found = kernels::down_mma(&x, &weight([0, 256]).weight).unwrap();
        assert_eq!(
            (found.shape(), found.dtype()),
            (&[2, 256][..], Dtype::Float16)
        );
        assert!(values(&found).iter().all(|&y| y == 0.0));
        let x = activations(2, 8, Dtype::Float16);
        for found in [
            kernels::down_mma(&x, &weight([8, 0]).weight),
            kernels::down_mma_wide(&x, &weight([8, 0]).weight, Pass::ONE_BLOCK),
        ] {
            assert_eq!(found.unwrap().shape(), [2, 0]);
        }
    });
}
