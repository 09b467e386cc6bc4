//! The expansion kernels against the host decoder, bit for bit.

mod common;

use common::trellis::{Coded, assert_same, geometry, on_kernels};
use common::{FLOATS, floats, values};
use mlx_kernels::trellis::{Selection, TrellisWeight, kernels};
use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Contract, Format, Geometry, Layout};

/// Holds the expansion of `coded`, in `dtype`, to the host decoder.
fn check(coded: &Coded, dtype: Dtype, selection: u8) {
    let (rows, cols) = (coded.geometry.rows() as i32, coded.geometry.cols() as i32);
    let selection = Selection::new(selection).unwrap();
    on_kernels(|backend| {
        let found = kernels::expand(&coded.weight, dtype, selection).unwrap();
        assert_eq!((found.shape(), found.dtype()), (&[rows, cols][..], dtype));
        let expected = floats(&coded.stored(Contract::Exact), &[rows, cols], dtype);
        let same = common::bits(&found) == common::bits(&expected);
        assert!(
            same,
            "{backend} {:?} {dtype:?} {selection:?}",
            coded.geometry
        );
    });
}

#[test]
fn every_width_and_layout_equals_the_host_decoder() {
    for bits in 1..=8 {
        let block = if bits % 2 == 0 { 192 } else { 256 };
        let rows = geometry(bits, block, Axis::Input, Layout::Rows, [3, 3 * block]);
        check(&Coded::random(rows), FLOATS[bits as usize % 3], 13);
    }
    for bits in [2, 3, 4] {
        let pairs = geometry(bits, 256, Axis::Output, Layout::BlockPairs, [3, 1024]);
        check(&Coded::random(pairs), FLOATS[bits as usize % 3], 13);
    }
}

#[test]
fn selections_and_scales_do_not_matter() {
    let shape = geometry(3, 256, Axis::Input, Layout::Rows, [8, 256]);
    let codes = Coded::random(shape).codes;
    let scales = [0.0, 1.0, -1.0, 0.000_031, 0.0131, 1.015_625, 127.0, -511.0];
    for dtype in FLOATS {
        let coded = Coded::new(shape, codes.clone(), &scales, dtype);
        for selection in 0..=13 {
            check(&coded, Dtype::Float32, selection);
        }
    }
}

#[test]
fn every_state_at_the_wrap_of_a_block() {
    // At t = 0 the window starts in the last bits of the block and ends in its first.
    let shape = geometry(3, 256, Axis::Input, Layout::Rows, [4096, 256]);
    let mut codes = vec![0; shape.words()];
    for (state, block) in codes.chunks_exact_mut(24).enumerate() {
        let state = state as u32;
        block[23] = (state & 7) << 29;
        block[0] = state >> 3;
    }
    let coded = Coded::new(shape, codes, &[1.0; 4096], Dtype::Float32);
    let states = trellis_codec::decode_states(&shape, &coded.codes).unwrap();
    assert!((0..4096).all(|state| usize::from(states[state * 256]) == state));
    check(&coded, Dtype::Float32, 1);
}

#[test]
fn empty_weights_and_integer_results() {
    let empty = Coded::random(geometry(2, 256, Axis::Input, Layout::Rows, [0, 256]));
    on_kernels(|_| {
        let selection = Selection::default();
        let found = kernels::expand(&empty.weight, Dtype::Float16, selection).unwrap();
        assert_eq!((found.shape(), values(&found).len()), (&[0, 256][..], 0));
        let error = kernels::expand(&empty.weight, Dtype::Int32, selection).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("trellis_expand") && text.contains("Int32"),
            "{text}"
        );
    });
    let error = Selection::new(14).unwrap_err().to_string();
    assert!(error.contains("14") && error.contains("0 to 13"), "{error}");
}

/// Holds the expansion of four columns a thread to the host decoder and to the general one.
fn check4(weight: &TrellisWeight, stored: &[f32]) {
    let geometry = weight.geometry();
    let shape = [geometry.rows() as i32, geometry.cols() as i32];
    let expected = floats(stored, &shape, Dtype::Bfloat16);
    on_kernels(|backend| {
        let context = format!("{backend} {geometry:?}");
        let found = kernels::expand4(weight).unwrap();
        assert_same(&found, &expected, &context);
        let general = kernels::expand(weight, Dtype::Bfloat16, Selection::default()).unwrap();
        assert_same(&found, &general, &context);
    });
}

#[test]
fn four_columns_a_thread_are_the_same() {
    // One row of 64 threads; three blocks a row, so that threadgroups cross rows.
    for (bits, extents) in [(2, [1, 256]), (3, [5, 768]), (4, [3, 768])] {
        let coded = Coded::random(geometry(bits, 256, Axis::Input, Layout::Rows, extents));
        check4(&coded.weight, &coded.stored(Contract::Exact));
    }
    // Pairs of blocks, without tiles of rows and with one or two.
    for (bits, extents) in [(3, [7, 1024]), (3, [128, 1024]), (2, [256, 512])] {
        let coded = Coded::random(geometry(
            bits,
            256,
            Axis::Output,
            Layout::BlockPairs,
            extents,
        ));
        check4(&coded.weight, &coded.stored(Contract::Exact));
    }
}

#[test]
fn four_columns_a_thread_of_views() {
    let coded = Coded::random(geometry(3, 256, Axis::Input, Layout::Rows, [8, 512]));
    let (codes, scales) = (coded.weight.codes(), coded.weight.scales());
    let codes = Array::from_slice(&values_by_column(codes), &[48, 8]).t();
    let scales = scales.reshape(&[8, 1]).unwrap();
    let twice = mlx_rs::ops::concatenate(&[&scales, &scales], 1).unwrap();
    let strided = twice.t().split_equal(2, 0).unwrap().remove(1);
    let strided = strided.reshape(&[8]).unwrap();
    let weight = TrellisWeight::new(codes, strided, &coded.geometry.entry()).unwrap();
    check4(&weight, &coded.stored(Contract::Exact));
}

/// The words of a matrix, column after column.
fn values_by_column(words: &Array) -> Vec<u32> {
    let (rows, columns) = (words.dim(0) as usize, words.dim(1) as usize);
    let words = words.as_slice::<u32>();
    (0..columns * rows)
        .map(|i| words[i % rows * columns + i / rows])
        .collect()
}

#[test]
fn four_columns_a_thread_where_they_fit() {
    let weight = |bits, state_bits, block, rows| {
        let format = Format::new(bits, state_bits, block).unwrap();
        let geometry = Geometry::new(format, Axis::Input, Layout::Rows, rows, 256).unwrap();
        Coded::random(geometry).weight
    };
    for (bits, state_bits, block, rows, expected) in [
        (2, 12, 256, 1, true),
        (3, 12, 256, 8, true),
        (4, 12, 256, 3, true),
        (1, 12, 256, 8, false),
        (5, 12, 256, 8, false),
        (3, 10, 256, 8, false),
        (3, 12, 128, 8, false),
        (3, 12, 256, 0, false),
    ] {
        let weight = weight(bits, state_bits, block, rows);
        let eligible = |dtype| kernels::expand4_is_eligible(&weight, dtype);
        assert_eq!(
            eligible(Dtype::Bfloat16),
            expected,
            "{:?}",
            weight.geometry()
        );
        assert!(!eligible(Dtype::Float16) && !eligible(Dtype::Float32));
        if !expected {
            let error = kernels::expand4(&weight).unwrap_err().to_string();
            let parts = ["trellis_expand4", &format!("{bits} bits"), "geometry"];
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
