//! The prefill kernels: the bits of host sums in their own order, of the stock product where MLX
//! adds in that order, and within float64 bounds.

mod common;

use common::prefill::{Form, SPLIT, TILED, WIDE, along_inputs, along_outputs};
use common::trellis::{
    Coded, activations, assert_golden_rounded, assert_same, geometry, golden_weight, on_kernels,
};
use common::{FLOATS, array, floats, on, values};
use integration_tests::golden;
use mlx_kernels::trellis::{Selection, kernels};
use mlx_kernels::{Backend, Context};
use mlx_rs::Array;
use mlx_rs::Dtype::{Bfloat16, Float16};
use trellis_codec::{Axis, Format, Geometry, Layout};

/// The same values as a transposed view.
fn transposed(x: &Array) -> Array {
    let columns = Array::from_slice(&values(&x.t()), &[x.dim(1), x.dim(0)]);
    columns.as_dtype(x.dtype()).unwrap().t()
}

#[test]
fn tiles_at_the_edges_of_rows_and_outputs() {
    let whole = along_inputs(2, 512, 256);
    for rows in [5, 6, 7, 8] {
        TILED.check(&whole, &activations(rows, 256, Bfloat16));
    }
    let ragged = along_inputs(3, 769, 256);
    for rows in [9, 17, 32] {
        TILED.check(&ragged, &activations(rows, 256, Bfloat16));
    }
    TILED.check(&ragged, &transposed(&activations(9, 256, Bfloat16)));
}

/// Codes of all widths, whose rows fill neither a tile nor, in the last of them, a step.
fn formats() -> Vec<Format> {
    let mut formats: Vec<_> = (1..=8).map(|k| Format::new(k, 12, 192).unwrap()).collect();
    formats.push(Format::new(4, 16, 64).unwrap());
    formats.push(Format::new(8, 16, 12).unwrap());
    formats
}

#[test]
fn tiles_of_every_width_and_type() {
    for (i, format) in formats().into_iter().enumerate() {
        let (rows, cols) = (70, 5 * format.block());
        let geometry = Geometry::new(format, Axis::Input, Layout::Rows, rows, cols).unwrap();
        TILED.check(
            &Coded::random(geometry),
            &activations(5, cols, FLOATS[i % 3]),
        );
    }
}

#[test]
fn parts_of_every_length() {
    let rows = Layout::Rows;
    for (coded, x_rows) in [
        (along_outputs(2, rows, 1280, 256), 5),
        (along_outputs(3, rows, 2080, 512), 8),
        (along_outputs(4, rows, 4096, 768), 5),
        (along_outputs(3, Layout::BlockPairs, 2080, 512), 7),
    ] {
        let (_, inputs) = coded.features();
        SPLIT.check(&coded, &activations(x_rows, inputs, Bfloat16));
        if x_rows == 5 && inputs == 1280 {
            SPLIT.check(&coded, &transposed(&activations(5, inputs, Bfloat16)));
        }
    }
}

#[test]
fn parts_of_every_width_and_type() {
    for (i, format) in formats().into_iter().enumerate() {
        // The last part ends inside a step.
        let (rows, cols) = (5 * format.block() + 7, 3 * format.block());
        let geometry = Geometry::new(format, Axis::Output, Layout::Rows, rows, cols);
        let coded = Coded::random(geometry.unwrap());
        if (SPLIT.is_eligible)(&coded.geometry, 6, FLOATS[i % 3]) {
            SPLIT.check(&coded, &activations(6, rows, FLOATS[i % 3]));
        } else {
            assert!(rows < 128, "{format:?}");
        }
    }
    for bits in [2, 4] {
        let pairs = geometry(bits, 64, Axis::Output, Layout::BlockPairs, [150, 128]);
        SPLIT.check(&Coded::random(pairs), &activations(6, 150, Float16));
    }
}

#[test]
fn lanes_of_every_row_count() {
    // Whole chunks and vectors that are left over, at either number of lanes.
    let coded = along_inputs(3, 128, 1536);
    for rows in 5..=15 {
        WIDE.check(&coded, &activations(rows, 1536, Bfloat16));
    }
    WIDE.check(&coded, &transposed(&activations(6, 1536, Bfloat16)));
}

#[test]
fn lanes_of_every_width_and_type() {
    for (i, format) in formats().into_iter().enumerate() {
        let cols = 5 * format.block();
        for (rows, outputs) in [(5, 7), (6, 9)] {
            let geometry = Geometry::new(format, Axis::Input, Layout::Rows, outputs, cols);
            let x = activations(rows, cols, FLOATS[i % 3]);
            WIDE.check(&Coded::random(geometry.unwrap()), &x);
        }
    }
}

#[test]
fn golden_products_are_within_tolerance() {
    for case in golden::load("trellis_axis1") {
        let (weight, x) = (golden_weight(&case, ""), array(case.tensor("x")));
        for form in [TILED, WIDE] {
            if !(form.is_eligible)(weight.geometry(), x.dim(0), x.dtype()) {
                continue;
            }
            on_kernels(|backend| {
                let y = (form.multiply)(&x, &weight).unwrap();
                assert_golden_rounded(&y, &case, &format!("{backend} {}", form.name));
            });
        }
    }
}

#[test]
fn special_values_stay_in_their_rows() {
    let inputs = along_inputs(3, 70, 256);
    let outputs = along_outputs(3, Layout::Rows, 256, 256);
    for (form, coded) in [(TILED, &inputs), (WIDE, &inputs), (SPLIT, &outputs)] {
        let clean = activations(6, 256, Bfloat16);
        let mut dirty = values(&clean);
        dirty[256 + 3] = f32::NAN;
        dirty[4 * 256 + 200] = f32::INFINITY;
        let dirty = floats(&dirty, &[6, 256], Bfloat16);
        on_kernels(|backend| {
            let context = format!("{backend} {}", form.name);
            let clean = values(&(form.multiply)(&clean, &coded.weight).unwrap());
            let found = values(&(form.multiply)(&dirty, &coded.weight).unwrap());
            let features = coded.features().0;
            for (row, (found, clean)) in found
                .chunks(features)
                .zip(clean.chunks(features))
                .enumerate()
            {
                match row {
                    1 => assert!(found.iter().all(|y| y.is_nan()), "{context}"),
                    4 => assert!(found.iter().all(|y| !y.is_finite()), "{context}"),
                    _ => assert_eq!(found, clean, "{context}"),
                }
            }
        });
    }
}

#[test]
fn scales_of_any_type_sign_and_size() {
    let scales = [0.0, 1.0, -1.0, 0.0131, 127.0, -511.0, 0.000_031];
    for dtype in FLOATS {
        let shape = geometry(3, 256, Axis::Input, Layout::Rows, [7, 256]);
        let codes = Coded::random(shape).codes;
        let coded = Coded::new(shape, codes, &scales, dtype);
        TILED.check(&coded, &activations(8, 256, Bfloat16));
        WIDE.check(&coded, &activations(8, 256, Bfloat16));
    }
}

#[test]
fn weights_small_enough_for_constant_memory() {
    let small = Coded::random(geometry(2, 32, Axis::Input, Layout::Rows, [1, 32]));
    assert!(small.codes.len() < 8);
    for form in [TILED, WIDE] {
        form.check(&small, &activations(5, 32, Bfloat16));
    }
}

/// Apple GPUs whose stock products run on neural accelerators, in an order of their own.
const FIRST_ACCELERATED_GENERATION: u32 = 17;
/// Apple GPUs on which MLX has a kernel for up to 15 rows of x.
const FIRST_WIDE_GENERATION: u32 = 15;

#[test]
fn stock_products_have_the_same_bits() {
    if !Backend::Metal.is_available() {
        println!("skipped: the stock products that the kernels equal are Metal's");
        return;
    }
    let profile = Context::new(Backend::Metal).unwrap().profile().clone();
    let generation = profile.apple_generation();
    if generation >= FIRST_ACCELERATED_GENERATION {
        println!(
            "skipped: {} multiplies on accelerators",
            profile.architecture
        );
        return;
    }
    let takes_wide = |rows: i32| generation >= FIRST_WIDE_GENERATION && rows <= 15;
    for (outputs, rows) in [
        (512, 5),
        (512, 8),
        (769, 7),
        (769, 9),
        (769, 17),
        (769, 32),
        (128, 13),
    ] {
        let (coded, x) = (
            along_inputs(3, outputs, 256),
            activations(rows, 256, Bfloat16),
        );
        let form = if takes_wide(rows as i32) { WIDE } else { TILED };
        assert_stock(&form, &coded, &x);
        assert_stock(&form, &coded, &transposed(&x));
    }
    for (inputs, outputs, rows) in [(1280, 256, 5), (2080, 512, 8), (4096, 768, 5)] {
        for layout in [Layout::Rows, Layout::BlockPairs] {
            if layout == Layout::Rows || outputs % 512 == 0 {
                let coded = along_outputs(3, layout, inputs, outputs);
                assert_stock(&SPLIT, &coded, &activations(rows, inputs, Bfloat16));
            }
        }
    }
}

/// Holds a kernel on Metal to the stock product with the expansion.
fn assert_stock(form: &Form, coded: &Coded, x: &Array) {
    on(Backend::Metal, || {
        let stored = kernels::expand(&coded.weight, Bfloat16, Selection::default()).unwrap();
        let matrix = match coded.geometry.axis() {
            Axis::Input => stored.t(),
            Axis::Output => stored,
        };
        let found = (form.multiply)(x, &coded.weight).unwrap();
        let context = format!("{} {:?} {} rows", form.name, coded.geometry, x.dim(0));
        assert_same(&found, &x.matmul(matrix).unwrap(), &context);
    });
}
