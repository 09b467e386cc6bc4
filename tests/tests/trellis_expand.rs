//! The expansion kernels against the host decoder, bit for bit.

mod common;

use common::trellis::{Coded, geometry, on_kernels};
use common::{FLOATS, floats, values};
use mlx_kernels::trellis::{Selection, kernels};
use mlx_rs::Dtype;
use trellis_codec::{Axis, Contract, Layout};

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
