//! Cases of the products on ordinary lanes.

use mlx_kernels::trellis::Selection;
use mlx_rs::Dtype::{self, Bfloat16, Float16, Float32};

use super::super::super::Effort;
use super::super::super::floats::FLOATS;
use super::super::{Case, Check, Route, Shape};
use super::{along_inputs, widths};

/// The products of up to 4 rows with codes along the inputs.
pub fn reduce(effort: Effort) -> Vec<Case> {
    let default = Selection::default();
    let (own, shared) = (Route::Reduce(default), Route::ReduceShared(default));
    let case = |route, shape, check| Case {
        route,
        shape,
        check,
    };
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        let shape = along_inputs(bits, FLOATS[i % 3]);
        cases.push(case(own, shape, Check::Bounds(&[1, 2, 4])));
    }
    let usual = many_runs(3, Bfloat16);
    cases.extend([
        case(own, many_runs(3, Float32), Check::Bounds(&[4])),
        case(own, along_inputs(3, Float32), Check::OneHot),
        case(own, usual, Check::Neighbours),
        case(shared, usual, Check::Neighbours),
        case(shared, usual, Check::Company(&[1, 2, 3, 4])),
        case(shared, usual, Check::Equals(own)),
        case(own, odd(2, Float32), Check::Bounds(&[1])),
        case(own, odd(3, Float16), Check::OneHot),
    ]);
    cases.extend(selections(along_inputs(3, Float16)));
    if effort == Effort::Full {
        let long = Shape {
            outputs: 67,
            inputs: 5120,
            ..along_inputs(4, Float16)
        };
        cases.push(case(shared, long, Check::Bounds(&[1, 2, 3, 4])));
    }
    cases
}

/// More runs than lanes.
pub fn many_runs(bits: u32, dtype: Dtype) -> Shape {
    Shape {
        inputs: 1536,
        ..along_inputs(bits, dtype)
    }
}

/// Short blocks, long states and other scales, in a number of rows that no threadgroup divides.
fn odd(bits: u32, scale_dtype: Dtype) -> Shape {
    Shape {
        rows: 1,
        outputs: 9,
        inputs: 96,
        state_bits: 16,
        block: 32,
        scale_dtype,
        ..along_inputs(bits, Bfloat16)
    }
}

/// Every arithmetic within its bounds, and equal where they promise it.
fn selections(shape: Shape) -> Vec<Case> {
    let mut cases = Vec::new();
    for selection in (0..=6).filter_map(|number| Selection::new(number).ok()) {
        let (route, divide) = (Route::Reduce(selection), Route::Reduce(Selection::DIVIDE));
        let check = match selection.number() {
            4 => continue,
            1..=3 => Check::Equals(divide),
            _ => Check::Bounds(&[3]),
        };
        cases.push(Case {
            route,
            shape,
            check,
        });
    }
    cases
}
