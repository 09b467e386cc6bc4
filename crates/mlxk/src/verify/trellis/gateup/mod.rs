//! Gate and up: two weights over one x, their products joined by a `SwiGLU`.

mod form;
mod tail;

use std::fmt;

use mlx_kernels::trellis::{TrellisWeight, kernels};
use mlx_kernels::{Backend, Context};

pub use form::Form;

use super::super::{Failure, Findings, Kernel, floats, same_bits, within_bounds};
use super::coded::Coded;
use super::product::{activations, checked};
use super::{Shape, rows};

/// One check of one kernel at one shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// The kernel, and how it is told to work.
    pub form: Form,
    /// Extents, element types and the code of gate.
    pub shape: Shape,
    /// Bits a weight of up.
    pub up_bits: u32,
    /// What is checked.
    pub check: Check,
}

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Check {
    /// Every element lies within its error bound, at each of these numbers of rows.
    Bounds(&'static [i32]),
    /// The bits are those of two products, each by its own kernel, and the `SwiGLU` that the form names:
    /// on the simulator computed on the host, on a GPU by MLX.
    Products,
    /// The bits are those of this other form.
    Equals(Form),
    /// A row's bits do not depend on how many rows stand beside it.
    Company(&'static [i32]),
    /// A row's bits do not depend on NaN and infinities in the other rows.
    Neighbours,
}

impl Case {
    /// The kernel that is checked.
    pub fn kernel(&self) -> Kernel {
        self.form.kernel()
    }

    /// Runs the check; operations must run under `context`.
    pub(in super::super) fn run(&self, context: &Context) -> Result<Findings, Failure> {
        let pair = Pair::new(self)?;
        let apply = |x: &[f32], shape: &Shape| pair.apply(self.form, x, shape);
        match self.check {
            Check::Bounds(counts) => self.bounds(&pair, counts),
            Check::Products => self.products(&pair, context.backend()),
            Check::Equals(other) => {
                let x = activations(&self.shape);
                let expected = pair.apply(other, &x, &self.shape)?;
                let found = apply(&x, &self.shape)?;
                same_bits("another form's result", &found, &expected)
            }
            Check::Company(counts) => rows::company(self.shape, counts, &apply),
            Check::Neighbours => rows::neighbours(&self.shape, &apply),
        }
    }

    fn bounds(&self, pair: &Pair, counts: &[i32]) -> Result<Findings, Failure> {
        let contract = self.form.contract();
        let [gate, up] = [&pair.gate, &pair.up].map(|coded| coded.matrix(contract));
        let (gate, up) = (gate?, up?);
        let mut findings = Findings::default();
        for &rows in counts {
            let shape = Shape { rows, ..self.shape };
            let x = activations(&shape);
            let (expected, bounds) = tail::reference(&x, [&gate, &up], &shape);
            let found = pair.apply(self.form, &x, &shape)?;
            findings = findings.and(within_bounds(&found, &expected, &bounds)?);
        }
        Ok(findings)
    }

    fn products(&self, pair: &Pair, backend: Backend) -> Result<Findings, Failure> {
        let shape = &self.shape;
        let values = activations(shape);
        let x = floats::array(&values, &[shape.rows, shape.inputs], shape.dtype);
        let [gate, up] = pair.weights()?;
        let gate = kernels::reduce(&x, &gate, self.form.selection())?;
        let up = kernels::reduce(&x, &up, self.form.selection())?;
        let expected = if backend == Backend::Sim {
            tail::on_host(&gate, &up, self.form.tail())?
        } else {
            tail::in_mlx(&gate, &up)?
        };
        let found = pair.apply(self.form, &values, shape)?;
        same_bits("two products and their SwiGLU", &found, &expected)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape {
            rows,
            outputs,
            inputs,
            bits,
            block,
            dtype,
            ..
        } = self.shape;
        let (x, up_bits) = (floats::name(dtype), self.up_bits);
        write!(
            f,
            "{:?} {:?}: {bits} and {up_bits} bits, blocks of {block}, {rows} x {inputs} by {outputs}, {x} x",
            self.form, self.check
        )
    }
}

/// The two weights of a case.
struct Pair {
    gate: Coded,
    up: Coded,
}

impl Pair {
    fn new(case: &Case) -> Result<Self, Failure> {
        let up = Shape {
            bits: case.up_bits,
            ..case.shape
        };
        Ok(Self {
            gate: Coded::random(&case.shape, 0)?,
            up: Coded::random(&up, 1)?,
        })
    }

    fn weights(&self) -> Result<[TrellisWeight; 2], Failure> {
        Ok([self.gate.weight()?, self.up.weight()?])
    }

    fn apply(&self, form: Form, x: &[f32], shape: &Shape) -> Result<Vec<f32>, Failure> {
        let x = floats::array(x, &[shape.rows, shape.inputs], shape.dtype);
        let [gate, up] = self.weights()?;
        let y = form.apply(&x, &gate, &up)?;
        checked(&y, [shape.rows, shape.outputs], shape.dtype)
    }
}
