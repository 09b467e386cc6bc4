//! The declared cases, as data.
//!
//! On the simulator every combination of template values is compiled, so widths, blocks and types
//! take turns instead of being combined.

mod gateup;
mod lanes;
mod matrix_unit;
mod prefill;
mod scatter;

use mlx_kernels::Backend;
use mlx_kernels::trellis::Selection;
use mlx_rs::Dtype::{self, Bfloat16, Float16, Float32};
use trellis_codec::Axis;

use super::super::Effort;
use super::super::floats::FLOATS;
use super::{Case, Check, Route, Shape};

/// The cases that are declared for `backend`.
pub fn declared(backend: Backend, effort: Effort) -> Vec<Case> {
    if backend == Backend::Cpu {
        return cpu(effort);
    }
    let mut cases = expand(effort);
    cases.extend(expand4());
    cases.extend(lanes::reduce(effort));
    cases.extend(scatter::cases(effort));
    cases.extend(matrix_unit::down(effort));
    cases.extend(prefill::cases(effort));
    cases
}

/// The cases of gate and up that are declared for `backend`.
pub fn declared_pairs(backend: Backend, effort: Effort) -> Vec<super::gateup::Case> {
    if backend == Backend::Cpu {
        return Vec::new();
    }
    gateup::cases(backend, effort)
}

/// The usual shape of a width: one row of blocks after another, three blocks a row.
fn along_inputs(bits: u32, dtype: Dtype) -> Shape {
    Shape {
        rows: 3,
        outputs: 5,
        inputs: 768,
        bits,
        state_bits: 12,
        block: 256,
        axis: Axis::Input,
        interleaved: false,
        dtype,
        scale_dtype: Float16,
    }
}

/// The same weight coded along its outputs.
fn along_outputs(bits: u32, dtype: Dtype) -> Shape {
    Shape {
        outputs: 768,
        inputs: 5,
        axis: Axis::Output,
        ..along_inputs(bits, dtype)
    }
}

/// Two pairs of blocks a row.
fn in_pairs(bits: u32, dtype: Dtype) -> Shape {
    Shape {
        outputs: 1024,
        interleaved: true,
        ..along_outputs(bits, dtype)
    }
}

fn widths(effort: Effort) -> &'static [u32] {
    match effort {
        Effort::Quick => &[2, 3, 4, 7],
        Effort::Full => &[1, 2, 3, 4, 5, 6, 7, 8],
    }
}

fn expand(effort: Effort) -> Vec<Case> {
    let case = |selection, shape| Case {
        route: Route::Expand(selection),
        shape,
        check: Check::Matrix,
    };
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        cases.push(case(
            Selection::default(),
            along_inputs(bits, FLOATS[i % 3]),
        ));
    }
    for selection in [Selection::DIVIDE, Selection::UNREFINED] {
        cases.push(case(selection, along_outputs(3, Float32)));
    }
    cases.push(case(Selection::default(), in_pairs(3, Bfloat16)));
    for scale_dtype in [Float32, Bfloat16] {
        let shape = Shape {
            outputs: 9,
            block: 192,
            scale_dtype,
            ..along_inputs(2, Float32)
        };
        cases.push(case(Selection::default(), shape));
    }
    cases
}

/// Rows side by side, and pairs of blocks without tiles of 128 rows and with one.
fn expand4() -> Vec<Case> {
    let case = |shape| Case {
        route: Route::Expand4,
        shape,
        check: Check::Matrix,
    };
    let mut cases: Vec<_> = [2, 3, 4]
        .map(|bits| case(along_inputs(bits, Bfloat16)))
        .into();
    for inputs in [5, 128] {
        let pairs = in_pairs(3, Bfloat16);
        cases.push(case(Shape { inputs, ..pairs }));
    }
    cases
}

/// Row counts at the edges of the CPU kernel's tiles.
const CPU_ROWS: &[i32] = &[1, 2, 3, 4, 5, 8, 9, 17];

fn cpu(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for (i, &bits) in widths(effort).iter().enumerate() {
        let dtype = FLOATS[i % 3];
        for shape in [along_inputs(bits, dtype), along_outputs(bits, dtype)] {
            for check in [
                Check::Bounds(CPU_ROWS),
                Check::Company(CPU_ROWS),
                Check::Neighbours,
            ] {
                let route = Route::Cpu;
                cases.push(Case {
                    route,
                    shape,
                    check,
                });
            }
        }
    }
    for dtype in FLOATS {
        let shape = in_pairs(3, dtype);
        let (route, check) = (Route::Cpu, Check::Bounds(CPU_ROWS));
        cases.push(Case {
            route,
            shape,
            check,
        });
    }
    cases
}
