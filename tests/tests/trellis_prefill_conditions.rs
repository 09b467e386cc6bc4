//! What the prefill kernels take, and what they say of what they do not.

mod common;

use common::FLOATS;
use common::prefill::{SPLIT, TILED, WIDE, along_inputs, along_outputs};
use common::trellis::{Coded, activations, geometry};
use mlx_rs::Dtype::{Bfloat16, Float32, Int32};
use trellis_codec::{Axis, Layout};

#[test]
fn one_changed_condition_ends_eligibility() {
    let (inputs, outputs) = (
        along_inputs(2, 512, 256),
        along_outputs(2, Layout::Rows, 512, 256),
    );
    for (form, coded, other, rows) in [
        (TILED, &inputs, &outputs, [5, 32]),
        (WIDE, &inputs, &outputs, [5, 15]),
        (SPLIT, &outputs, &inputs, [5, 8]),
    ] {
        let takes = |coded: &Coded, rows, dtype| (form.is_eligible)(&coded.geometry, rows, dtype);
        for dtype in FLOATS {
            assert!(takes(coded, rows[0], dtype) && takes(coded, rows[1], dtype));
        }
        assert!(!takes(coded, rows[0] - 1, Bfloat16));
        assert!(!takes(coded, rows[1] + 1, Bfloat16));
        assert!(!takes(coded, rows[0], Int32));
        assert!(!takes(other, rows[0], Bfloat16));
    }
    for (form, axis) in [
        (TILED, Axis::Input),
        (WIDE, Axis::Input),
        (SPLIT, Axis::Output),
    ] {
        let empty = Coded::random(geometry(2, 256, axis, Layout::Rows, [0, 256]));
        assert!(!(form.is_eligible)(&empty.geometry, 5, Bfloat16));
    }
}

#[test]
fn parts_are_for_products_that_mlx_splits() {
    for ([inputs, outputs], expected) in [
        ([128, 128], true),
        ([127, 64], false),
        ([255, 256], false),
        ([256, 256], true),
    ] {
        let shape = geometry(2, 64, Axis::Output, Layout::Rows, [inputs, outputs]);
        let weight = Coded::random(shape).weight;
        assert_eq!(
            (SPLIT.is_eligible)(weight.geometry(), 8, Bfloat16),
            expected,
            "{shape:?}"
        );
    }
}

#[test]
fn refusals_name_the_kernel_and_what_it_was_given() {
    let inputs = along_inputs(2, 512, 256);
    let outputs = along_outputs(2, Layout::Rows, 512, 256);
    for (form, own, other, range) in [
        (TILED, &inputs, &outputs, "5 to 32"),
        (WIDE, &inputs, &outputs, "5 to 15"),
        (SPLIT, &outputs, &inputs, "5 to 8"),
    ] {
        let (_, features) = own.features();
        let few = form.refusal(&activations(4, features, Bfloat16), &own.weight);
        assert!(
            few.contains(&format!("[4, {features}]")) && few.contains(range),
            "{few}"
        );
        let narrow = form.refusal(&activations(8, 128, Bfloat16), &own.weight);
        assert!(
            narrow.contains("[8, 128]") && narrow.contains(&features.to_string()),
            "{narrow}"
        );
        let stacked = activations(10, features, Bfloat16);
        let stacked = stacked.reshape(&[2, 5, features as i32]).unwrap();
        assert!(form.refusal(&stacked, &own.weight).contains("[2, 5"));
        let whole = activations(8, features, Float32).as_dtype(Int32).unwrap();
        assert!(form.refusal(&whole, &own.weight).contains("Int32"));
        let (_, features) = other.features();
        let axis = form.refusal(&activations(8, features, Bfloat16), &other.weight);
        assert!(axis.contains("axis"), "{axis}");
    }
    for (short, reason) in [([120, 64], "128 inputs"), ([256, 512], "no more outputs")] {
        let wide = Coded::random(geometry(2, 64, Axis::Output, Layout::Rows, short));
        let text = SPLIT.refusal(&activations(8, short[0], Bfloat16), &wide.weight);
        assert!(
            text.contains(reason) && text.contains("stored rows"),
            "{text}"
        );
    }
}
