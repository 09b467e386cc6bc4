//! The gate of a gated MLP.

use crate::error::{check_length, check_type};
use crate::exp::exp;
use crate::simd::{self, Kernel, Simd};
use crate::{Error, Execution, Floats, FloatsMut, Level, threads};

/// Elements that a thread takes at a time.
const PART: usize = 4096;

/// Elements whose widened copies are on the stack.
const RUN: usize = 256;

/// What an element costs, in the multiply-adds that threads are counted by.
const EFFORT: usize = 16;

/// `y = silu(gate) * up`, element by element, with `silu(g) = g / (1 + e^-g)`.
///
/// All four arrays have one length, and `up` and `y` the element type of `gate`. Arithmetic is
/// `f32`, and the result is rounded once. NaN, and `gate` at minus infinity, give NaN, as MLX's
/// `gate * sigmoid(gate) * up` does.
///
/// # Errors
///
/// [`Error::Length`] and [`Error::ElementType`] for arrays that do not go together; nothing is
/// written then.
pub fn swiglu(gate: Floats<'_>, up: Floats<'_>, mut y: FloatsMut<'_>) -> Result<(), Error> {
    let len = gate.len();
    check_length("up", up.len(), len)?;
    check_length("y", y.len(), len)?;
    check_type("up", up.float_type(), "gate", gate.float_type())?;
    check_type("y", y.float_type(), "gate", gate.float_type())?;
    let y = y.shared();
    let effort = EFFORT.saturating_mul(len);
    threads::share(
        len.div_ceil(PART),
        Execution::default().threads,
        effort,
        &|part| {
            let (mut gates, mut ups) = ([0.0; RUN], [0.0; RUN]);
            let end = len.min((part + 1) * PART);
            for start in (part * PART..end).step_by(RUN) {
                let count = RUN.min(end - start);
                let (gate_run, up_run) = (&mut gates[..count], &mut ups[..count]);
                gate.widen_into(start, gate_run);
                up.widen_into(start, up_run);
                simd::enter(
                    Level::best(),
                    Gate {
                        gate: gate_run,
                        up: up_run,
                    },
                );
                // SAFETY: runs are disjoint, and `y` has `len` elements and stays borrowed.
                unsafe { y.write(start, gate_run) };
            }
        },
    );
    Ok(())
}

/// Replaces gates by results.
struct Gate<'a> {
    gate: &'a mut [f32],
    up: &'a [f32],
}

impl Kernel for Gate<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for (gate, up) in self.gate.iter_mut().zip(self.up) {
            *gate = *gate / (1.0 + exp(-*gate)) * up;
        }
    }
}
