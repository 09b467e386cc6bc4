//! Cases of the products of few rows with codes along the outputs.

use mlx_kernels::trellis::Selection;
use mlx_kernels::trellis::kernels::ScatterOptions;
use mlx_rs::Dtype::{self, Bfloat16, Float16, Float32};

use super::super::super::Effort;
use super::super::super::floats::FLOATS;
use super::super::{Case, Check, Route, Scatter, Shape};
use super::{along_outputs, in_pairs, widths};

/// The general form at selection 6, to whose bits the others are held.
const USUAL: Scatter = Scatter::Base(Selection::UNREFINED, OPTIONS);
const OPTIONS: ScatterOptions = ScatterOptions {
    table: false,
    lifted: true,
};
const TABLE: ScatterOptions = ScatterOptions {
    table: true,
    lifted: false,
};
const CONVERTED: ScatterOptions = ScatterOptions {
    table: false,
    lifted: false,
};
const SHARED: Scatter = Scatter::Shared(Selection::ALL_KERNELS);
const FEW_ROWS: &[i32] = &[1, 2, 3, 4];

/// All forms.
pub fn cases(effort: Effort) -> Vec<Case> {
    let mut cases = general(effort);
    cases.extend(balanced());
    cases.extend(factored(effort));
    cases
}

fn case(form: Scatter, shape: Shape, check: Check) -> Case {
    Case {
        route: Route::Scatter(form),
        shape,
        check,
    }
}

fn equal(form: Scatter, other: Scatter, shape: Shape) -> Case {
    case(form, shape, Check::Equals(Route::Scatter(other)))
}

/// 67 inputs: splits of one row, and splits without any.
fn shape(bits: u32, dtype: Dtype) -> Shape {
    Shape {
        rows: 4,
        inputs: 67,
        ..along_outputs(bits, dtype)
    }
}

/// Splits of six rows, more than are read ahead, and a last one of five.
fn long(shape: Shape) -> Shape {
    Shape {
        inputs: 641,
        ..shape
    }
}

fn general(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        let shape = shape(bits, FLOATS[i % 3]);
        cases.push(case(USUAL, shape, Check::Bounds(&[1])));
        cases.push(case(SHARED, shape, Check::Bounds(&[4])));
    }
    let usual = shape(3, Bfloat16);
    for number in [0, 5] {
        if let Ok(selection) = Selection::new(number) {
            let form = Scatter::Base(selection, OPTIONS);
            cases.push(case(form, usual, Check::Bounds(&[2])));
        }
    }
    for number in 1..=3 {
        if let Ok(selection) = Selection::new(number) {
            let form = Scatter::Base(selection, OPTIONS);
            let exact = Scatter::Base(Selection::DIVIDE, OPTIONS);
            cases.push(equal(form, exact, usual));
        }
    }
    for bits in [3, 4] {
        for options in [TABLE, CONVERTED] {
            let form = Scatter::Base(Selection::ALL_KERNELS, options);
            cases.push(equal(form, USUAL, shape(bits, Bfloat16)));
        }
    }
    cases.extend([
        case(USUAL, along_outputs(3, Float32), Check::OneHot),
        case(USUAL, in_pairs(3, Float16), Check::OneHot),
        case(USUAL, long(shape(3, Float32)), Check::Bounds(&[1])),
        case(SHARED, usual, Check::Company(FEW_ROWS)),
        case(SHARED, usual, Check::Neighbours),
    ]);
    cases
}

fn balanced() -> Vec<Case> {
    let shared = |code_table| Scatter::BalancedShared { code_table };
    let usual = shape(3, Bfloat16);
    let forms = [
        Scatter::Balanced(OPTIONS),
        Scatter::Balanced(TABLE),
        Scatter::Balanced(CONVERTED),
        shared(false),
        shared(true),
    ];
    let mut cases: Vec<_> = forms.map(|form| equal(form, USUAL, usual)).into();
    cases.extend([
        equal(Scatter::Balanced(OPTIONS), USUAL, long(shape(3, Float32))),
        equal(shared(true), USUAL, long(in_pairs(3, Bfloat16))),
        case(
            Scatter::Balanced(OPTIONS),
            along_outputs(3, Float32),
            Check::OneHot,
        ),
        case(shared(false), in_pairs(3, Float16), Check::OneHot),
        case(shared(true), usual, Check::Company(FEW_ROWS)),
        case(shared(true), usual, Check::Neighbours),
        case(Scatter::Balanced(OPTIONS), usual, Check::Bounds(&[2])),
    ]);
    cases
}

fn factored(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        let shape = shape(bits, FLOATS[i % 3]);
        cases.push(case(Scatter::Factored, shape, Check::Bounds(&[1, 4])));
    }
    let form = Scatter::Factored;
    let usual = shape(3, Bfloat16);
    cases.extend([
        case(form, along_outputs(3, Float32), Check::OneHot),
        case(form, in_pairs(3, Float16), Check::OneHot),
        case(form, in_pairs(3, Bfloat16), Check::Company(FEW_ROWS)),
        case(form, usual, Check::Company(FEW_ROWS)),
        case(form, usual, Check::Neighbours),
        case(form, long(shape(3, Float16)), Check::Bounds(&[2])),
    ]);
    cases
}
