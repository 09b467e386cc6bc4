//! Gate and up: two weights over one x.

use mlx_op::TemplateArg;
use mlx_rs::{Array, Dtype};
use trellis_codec::Axis;

use super::super::TrellisWeight;
use super::operands::{bits, block, codes, described, expect_runs, extents};
use crate::Error;
use crate::kernels::template;

/// What a kernel asks of the two widths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Widths {
    Equal,
    Different,
    Any,
}

impl Widths {
    fn fit(self, gate: i32, up: i32) -> bool {
        match self {
            Self::Equal => gate == up,
            Self::Different => gate != up,
            Self::Any => true,
        }
    }
}

/// Two weights that are coded along their inputs, with equal extents, blocks and states.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub gate: &'a TrellisWeight,
    pub up: &'a TrellisWeight,
}

impl<'a> Pair<'a> {
    /// Checks what the kernels take for granted.
    ///
    /// # Errors
    ///
    /// When the geometries differ in more than the width, the code does not run along the inputs, a
    /// block is no whole number of runs, or the widths are not as asked.
    pub(super) fn new(
        op: &'static str,
        gate: &'a TrellisWeight,
        up: &'a TrellisWeight,
        widths: Widths,
    ) -> Result<Self, Error> {
        if common_geometry(gate) != common_geometry(up) || gate.geometry().axis() != Axis::Input {
            return Err(Error::Value {
                op,
                argument: "gate's and up's geometry",
                found: format!("{}; and {}", described(gate), described(up)),
                expected: "one axis-1 geometry for both, except for the bits a weight".into(),
            });
        }
        expect_runs(op, gate)?;
        let (gate_bits, up_bits) = (bits(gate), bits(up));
        if !widths.fit(gate_bits, up_bits) {
            return Err(Error::Value {
                op,
                argument: "gate's and up's bits a weight",
                found: format!("{gate_bits} and {up_bits}"),
                expected: match widths {
                    Widths::Different => "different widths".into(),
                    _ => "equal widths".into(),
                },
            });
        }
        Ok(Self { gate, up })
    }

    /// The codes and scales of gate, then of up. Scales of different types are widened, which is
    /// exact.
    ///
    /// # Errors
    ///
    /// Those of MLX.
    pub(super) fn inputs(&self) -> Result<[Array; 4], Error> {
        let dtype = self.scale_dtype();
        Ok([
            codes(self.gate)?,
            self.gate.scales().as_dtype(dtype)?,
            codes(self.up)?,
            self.up.scales().as_dtype(dtype)?,
        ])
    }

    /// The template arguments that say what the codes are: `S R C TB KG KU L`.
    pub(super) fn template(&self) -> Vec<(String, TemplateArg)> {
        let (rows, cols) = extents(self.gate);
        template! {
            "S" => self.scale_dtype(), "R" => rows, "C" => cols, "TB" => block(self.gate),
            "KG" => bits(self.gate), "KU" => bits(self.up),
            "L" => self.gate.geometry().format().state_bits() as i32,
        }
    }

    fn scale_dtype(&self) -> Dtype {
        let (gate, up) = (self.gate.scales().dtype(), self.up.scales().dtype());
        if gate == up { gate } else { Dtype::Float32 }
    }
}

/// Everything of a geometry but the width.
fn common_geometry(weight: &TrellisWeight) -> (Axis, (i32, i32), i32, u32) {
    let geometry = weight.geometry();
    let state_bits = geometry.format().state_bits();
    (geometry.axis(), extents(weight), block(weight), state_bits)
}
