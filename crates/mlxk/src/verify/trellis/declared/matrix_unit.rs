//! Cases of the products on the matrix unit.

use mlx_kernels::trellis::kernels::Pass;
use mlx_rs::Dtype::{self, Bfloat16, Float16, Float32};

use super::super::super::Effort;
use super::super::super::floats::FLOATS;
use super::super::{Case, Check, Route, Shape};
use super::{along_outputs, in_pairs, widths};

/// Two blocks of outputs.
const OUTPUTS: i32 = 512;
/// Rows of the wide kernel, at the edges of its blocks.
const MANY_ROWS: &[i32] = &[1, 7, 8, 9, 17, 33];

/// The products with codes along the outputs.
pub fn down(effort: Effort) -> Vec<Case> {
    let mut cases = narrow(effort);
    cases.extend(wide(effort));
    cases
}

fn shape(bits: u32, inputs: i32, dtype: Dtype) -> Shape {
    Shape {
        rows: 8,
        outputs: OUTPUTS,
        inputs,
        ..along_outputs(bits, dtype)
    }
}

/// 67 inputs: a last step of three, and splits without any.
fn narrow(effort: Effort) -> Vec<Case> {
    let case = |shape, check| Case {
        route: Route::DownMma,
        shape,
        check,
    };
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        cases.push(case(shape(bits, 67, FLOATS[i % 3]), Check::Bounds(&[8])));
    }
    let usual = shape(3, 67, Float32);
    let pairs = Shape {
        inputs: 67,
        rows: 8,
        ..in_pairs(3, Float32)
    };
    cases.extend([
        case(usual, Check::OneHot),
        case(usual, Check::Neighbours),
        case(usual, Check::Company(&[1, 3, 8])),
        case(pairs, Check::OneHot),
        // x and scales in constant memory.
        case(shape(2, 5, Float16), Check::Bounds(&[1])),
    ]);
    if effort == Effort::Full {
        let counts = &[1, 2, 3, 4, 5, 6, 7, 8];
        cases.push(case(shape(4, 2080, Bfloat16), Check::Bounds(counts)));
        cases.push(case(shape(4, 2080, Bfloat16), Check::Company(counts)));
    }
    cases
}

fn wide(effort: Effort) -> Vec<Case> {
    let passes = [(16, 1), (8, 2), (8, 3), (16, 2)].map(|(matrices, blocks)| {
        let pass = Pass::new(matrices, blocks);
        Route::DownMmaWide(pass.unwrap_or(Pass::ONE_BLOCK))
    });
    let case = |route, shape, check| Case {
        route,
        shape,
        check,
    };
    let usual = shape(3, 72, Bfloat16);
    let mut cases = Vec::new();
    for route in passes {
        cases.push(case(route, usual, Check::Equals(Route::DownMma)));
        cases.push(case(route, usual, Check::Company(MANY_ROWS)));
        cases.push(case(route, usual, Check::Neighbours));
    }
    for (i, &bits) in widths(effort).iter().enumerate() {
        let route = passes[i % 2];
        let shape = shape(bits, 72, FLOATS[i % 3]);
        cases.push(case(route, shape, Check::Bounds(&[8, 13])));
    }
    cases.push(case(passes[0], shape(2, 8, Float32), Check::OneHot));
    let pairs = Shape {
        rows: 9,
        inputs: 72,
        ..in_pairs(3, Float32)
    };
    cases.push(case(passes[0], pairs, Check::OneHot));
    if effort == Effort::Full {
        let long = shape(4, 2080, Float16);
        for route in passes {
            cases.push(case(route, long, Check::Bounds(MANY_ROWS)));
        }
    }
    cases
}
