//! Cases of gate and up.

use mlx_kernels::Backend;
use mlx_kernels::trellis::Selection;
use mlx_kernels::trellis::kernels::{MixedOptions, Tail};
use mlx_rs::Dtype::{Bfloat16, Float16, Float32};

use super::super::super::Effort;
use super::super::super::floats::FLOATS;
use super::super::Shape;
use super::super::gateup::{Case, Check, Form};
use super::lanes::many_runs;
use super::{along_inputs, widths};

/// Rows of the forms that share decoded weights.
const ROWS: &[i32] = &[1, 2, 3, 4];

/// Every form.
pub fn cases(backend: Backend, effort: Effort) -> Vec<Case> {
    let mut cases = equal_widths(effort);
    cases.extend(mixed_widths(effort));
    cases.extend(factored(effort));
    cases.extend(matrix_unit(effort));
    // Elsewhere the float tail has the exponential of the device, which no one else computes.
    cases.retain(|case| {
        let host = backend == Backend::Sim || case.form.tail() == Tail::Stock;
        case.check != Check::Products || host
    });
    cases
}

fn case(form: Form, shape: Shape, up_bits: u32, check: Check) -> Case {
    Case {
        form,
        shape,
        up_bits,
        check,
    }
}

fn mixed(tail: Tail, lifted: bool) -> Form {
    Form::Mixed(MixedOptions {
        tail,
        lifted,
        ..MixedOptions::default()
    })
}

fn equal_widths(effort: Effort) -> Vec<Case> {
    let default = Selection::default();
    let (base, shared) = (Form::Base(default), Form::Shared(default));
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        let shape = along_inputs(bits, FLOATS[i % 3]);
        cases.push(case(base, shape, bits, Check::Bounds(&[1, 3])));
        cases.push(case(base, shape, bits, Check::Products));
    }
    let usual = many_runs(3, Bfloat16);
    let one = Shape { rows: 1, ..usual };
    cases.extend([
        case(base, usual, 3, Check::Neighbours),
        case(shared, usual, 3, Check::Equals(base)),
        case(shared, usual, 3, Check::Company(ROWS)),
        case(mixed(Tail::Float, true), usual, 3, Check::Equals(base)),
        case(Form::Table, one, 3, Check::Equals(base)),
    ]);
    let exact = [Selection::DIVIDE, Selection::TABLE].map(Form::Base);
    let shape = along_inputs(3, Float16);
    cases.push(case(exact[0], shape, 3, Check::Bounds(&[2])));
    cases.push(case(exact[1], shape, 3, Check::Equals(exact[0])));
    cases
}

fn mixed_widths(effort: Effort) -> Vec<Case> {
    let stock = mixed(Tail::Stock, true);
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        let shape = along_inputs(bits, FLOATS[i % 3]);
        let up_bits = if bits == 2 { 3 } else { 2 };
        cases.push(case(stock, shape, up_bits, Check::Products));
        cases.push(case(stock, shape, up_bits, Check::Bounds(&[2])));
    }
    let usual = many_runs(3, Float32);
    cases.extend([
        case(stock, usual, 4, Check::Products),
        case(stock, usual, 4, Check::Neighbours),
        case(stock, usual, 4, Check::Company(ROWS)),
        case(mixed(Tail::Stock, false), usual, 4, Check::Equals(stock)),
    ]);
    cases
}

fn factored(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        let shape = along_inputs(bits, FLOATS[i % 3]);
        let up_bits = if bits == 2 { 3 } else { 2 };
        cases.extend([
            case(Form::FactoredRow, shape, bits, Check::Bounds(&[1])),
            case(Form::FactoredRows, shape, bits, Check::Bounds(&[2])),
            case(Form::MixedFactored, shape, up_bits, Check::Bounds(&[1, 3])),
        ]);
    }
    let usual = many_runs(3, Bfloat16);
    cases.extend([
        case(Form::FactoredRows, usual, 3, Check::Company(&[2, 3, 4])),
        case(Form::FactoredRows, usual, 3, Check::Neighbours),
        case(Form::FactoredRows, usual, 3, Check::Bounds(&[4])),
        case(Form::MixedFactored, usual, 4, Check::Company(ROWS)),
        case(Form::MixedFactored, usual, 4, Check::Neighbours),
    ]);
    cases
}

/// 40 outputs: a threadgroup of four simdgroups, and one of which three have nothing to do.
fn matrix_unit(effort: Effort) -> Vec<Case> {
    let shape = |bits, dtype| Shape {
        rows: 8,
        outputs: 40,
        ..along_inputs(bits, dtype)
    };
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        let (shape, up_bits) = (
            shape(bits, FLOATS[i % 3]),
            if i % 2 == 0 { bits } else { 2 },
        );
        cases.push(case(Form::Mma, shape, up_bits, Check::Bounds(&[1, 5, 8])));
    }
    let usual = shape(3, Bfloat16);
    let many = Shape { rows: 35, ..usual };
    cases.extend([
        case(Form::Mma, usual, 4, Check::Company(&[1, 2, 7, 8])),
        case(Form::Mma, usual, 4, Check::Neighbours),
    ]);
    for blocks in 1..=4 {
        let form = Form::MmaWide(blocks);
        cases.push(case(form, usual, 4, Check::Equals(Form::Mma)));
        cases.push(case(form, many, 4, Check::Company(&[1, 8, 9, 17, 33])));
    }
    cases.push(case(Form::MmaWide(2), many, 4, Check::Neighbours));
    if effort == Effort::Full {
        let long = Shape {
            inputs: 5120,
            ..shape(3, Float16)
        };
        cases.push(case(Form::MmaWide(4), long, 3, Check::Bounds(&[8, 33])));
    }
    cases
}
