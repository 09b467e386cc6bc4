//! Cases of the products of a prompt's rows.

use mlx_rs::Dtype::Bfloat16;

use super::super::super::Effort;
use super::super::super::floats::FLOATS;
use super::super::{Case, Check, Route, Shape};
use super::{along_inputs, along_outputs, in_pairs, widths};

/// Every width in turns of types, at results that fill no tile; then every number of rows at one
/// width, and blocks that end inside the tiles' steps.
pub fn cases(effort: Effort) -> Vec<Case> {
    let mut cases = tiled(effort);
    cases.extend(split(effort));
    cases.extend(wide(effort));
    cases
}

fn checked(route: Route, shape: Shape, checks: impl IntoIterator<Item = Check>) -> Vec<Case> {
    let checks = checks.into_iter();
    let case = |check| Case {
        route,
        shape,
        check,
    };
    checks.map(case).collect()
}

/// What is checked of every width, at the shape's rows and at 5.
fn usual_checks(shape: &Shape) -> [Check; 3] {
    let counts: &[i32] = if shape.rows == 8 { &[5, 8] } else { &[6] };
    [Check::Bounds(counts), Check::OneHot, Check::Neighbours]
}

/// The tail of the inputs is shorter than a step of the tiles.
fn short_blocks(shape: Shape) -> Shape {
    Shape {
        inputs: 60,
        bits: 8,
        state_bits: 16,
        block: 12,
        ..shape
    }
}

fn tiled(effort: Effort) -> Vec<Case> {
    let route = Route::PrefillTiled;
    let shape = |bits, dtype| Shape {
        rows: 8,
        outputs: 70,
        ..along_inputs(bits, dtype)
    };
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        let shape = shape(bits, FLOATS[i % 3]);
        cases.extend(checked(route, shape, usual_checks(&shape)));
    }
    let counts = &[5, 8, 9, 16, 17, 32];
    let all_rows = [Check::Bounds(counts), Check::Company(counts)];
    cases.extend(checked(route, shape(3, Bfloat16), all_rows));
    let short = short_blocks(shape(8, Bfloat16));
    cases.extend(checked(route, short, [Check::Bounds(&[5]), Check::OneHot]));
    cases
}

/// The last part ends inside a step.
fn split(effort: Effort) -> Vec<Case> {
    let route = Route::PrefillSplitk;
    let shape = |bits, dtype| Shape {
        rows: 8,
        inputs: 790,
        ..along_outputs(bits, dtype)
    };
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        let (block, outputs) = if bits % 2 == 0 { (48, 144) } else { (32, 160) };
        let shape = Shape {
            outputs,
            block,
            ..shape(bits, FLOATS[i % 3])
        };
        cases.extend(checked(route, shape, usual_checks(&shape)));
    }
    let counts = &[5, 6, 7, 8];
    let all_rows = [Check::Bounds(counts), Check::Company(counts)];
    cases.extend(checked(route, shape(3, Bfloat16), all_rows));
    let pairs = Shape {
        rows: 8,
        outputs: 512,
        inputs: 790,
        ..in_pairs(3, Bfloat16)
    };
    cases.extend(checked(route, pairs, usual_checks(&pairs)));
    cases
}

/// Inputs of whole chunks, one for half a simdgroup and two for a whole one, and vectors that are
/// left over; outputs that fill no threadgroup.
fn wide(effort: Effort) -> Vec<Case> {
    let route = Route::PrefillWide;
    let shape = |bits, dtype| Shape {
        rows: 6,
        outputs: 7,
        ..along_inputs(bits, dtype)
    };
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        let shape = shape(bits, FLOATS[i % 3]);
        cases.extend(checked(route, shape, usual_checks(&shape)));
    }
    let counts: &[i32] = match effort {
        Effort::Quick => &[6, 15],
        Effort::Full => &[6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    };
    let all_rows = [Check::Bounds(counts), Check::Company(counts)];
    cases.extend(checked(route, shape(3, Bfloat16), all_rows));
    let five = Shape {
        rows: 5,
        inputs: 2304,
        ..shape(3, Bfloat16)
    };
    cases.extend(checked(route, five, [Check::Bounds(&[5]), Check::OneHot]));
    let short = short_blocks(shape(8, Bfloat16));
    cases.extend(checked(route, short, [Check::Bounds(&[6]), Check::OneHot]));
    cases
}
