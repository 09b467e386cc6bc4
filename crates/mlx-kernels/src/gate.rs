//! The gate of a gated MLP.

use mlx_op::{Backend, HostError, HostOp, OutputSpec};
use mlx_rs::{Array, ops};

use crate::host::{floats, floats_mut, is_supported};
use crate::{Context, Error};

const OP: &str = "swiglu";

/// `silu(gate) * up`, element by element, with `silu(g) = g * sigmoid(g)`.
///
/// * `gate`, `up`: one shape and one of float32, float16 and bfloat16; so is the result.
///
/// On the CPU in one pass that rounds once, elsewhere as [`stock`].
///
/// # Errors
///
/// Names the argument that does not fit, what it is and what it must be.
pub fn swiglu(gate: &Array, up: &Array) -> Result<Array, Error> {
    check(gate, up)?;
    match Context::current().backend() {
        Backend::Cpu if gate.size() > 0 => host(gate, up),
        _ => stock(gate, up),
    }
}

/// The same by MLX's operations, each rounded to the element type.
///
/// # Errors
///
/// Those of the operations.
pub fn stock(gate: &Array, up: &Array) -> Result<Array, Error> {
    Ok(gate.multiply(ops::sigmoid(gate)?)?.multiply(up)?)
}

fn check(gate: &Array, up: &Array) -> Result<(), Error> {
    let refuse = |argument, array: &Array, expected| {
        let found = array.dtype();
        Err(Error::Dtype {
            op: OP,
            argument,
            found,
            expected,
        })
    };
    if !is_supported(gate.dtype()) {
        return refuse("gate", gate, "float32, float16 or bfloat16".to_owned());
    }
    if up.dtype() != gate.dtype() {
        return refuse("up", up, format!("{:?}, as gate", gate.dtype()));
    }
    if up.shape() != gate.shape() {
        return Err(Error::Shape {
            op: OP,
            argument: "up",
            found: up.shape().to_vec(),
            expected: format!("{:?}, as gate", gate.shape()),
        });
    }
    Ok(())
}

fn host(gate: &Array, up: &Array) -> Result<Array, Error> {
    let output = OutputSpec::new(gate.shape(), gate.dtype());
    let mut results = HostOp::new(OP).apply(&[gate, up], &[output], |inputs, outputs| {
        let ([gate, up], [y]) = (inputs, outputs) else {
            return Err(HostError::failed("expected two inputs and an output"));
        };
        mlx_kernels_cpu::gate::swiglu(floats(gate)?, floats(up)?, floats_mut(y)?)
            .map_err(HostError::failed)
    })?;
    Ok(results.remove(0))
}
