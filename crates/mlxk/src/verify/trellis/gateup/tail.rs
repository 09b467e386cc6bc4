//! `silu(gate) * up` in float64 with error bounds, and with the roundings of each tail.

use mlx_kernels::trellis::kernels::Tail;
use mlx_rs::{Array, Dtype, ops};

use super::super::super::Failure;
use super::super::super::floats::{self, round, smallest_subnormal, unit_roundoff};
use super::super::Shape;

/// The tail on rounded products, operation by operation, with the host's exponential, which is the
/// simulator's too.
pub fn on_host(gate: &Array, up: &Array, tail: Tail) -> Result<Vec<f32>, Failure> {
    let dtype = gate.dtype();
    let round = |value: f32| round(value, dtype);
    let sigmoid = |gate: f32| match tail {
        Tail::Float => round(1.0 / (1.0 + (-gate).exp())),
        Tail::Stock => {
            let below_half = round(1.0 / round(1.0 + round(gate.abs().exp())));
            if gate < 0.0 {
                below_half
            } else {
                round(1.0 - below_half)
            }
        }
    };
    let products = floats::values(gate)?.into_iter().zip(floats::values(up)?);
    Ok(products
        .map(|(gate, up)| round(round(gate * sigmoid(gate)) * up))
        .collect())
}

/// MLX's own operations on the context's device.
pub fn in_mlx(gate: &Array, up: &Array) -> Result<Vec<f32>, Failure> {
    let silu = gate.multiply(ops::sigmoid(gate)?)?;
    floats::values(&silu.multiply(up)?)
}

/// A float64 number and how far off a computed one may be.
#[derive(Debug, Clone, Copy)]
struct Bounded {
    value: f64,
    off: f64,
}

/// The float64 result and each element's error bound.
///
/// A product is off by its summation and one rounding; silu multiplies that by at most 1.1. The
/// sigmoid is off by four roundings and the exponential's error, in float16 also by what is lost where
/// the exponential overflows; two products follow.
pub fn reference(x: &[f32], matrices: [&[f32]; 2], shape: &Shape) -> (Vec<f64>, Vec<f64>) {
    let (inputs, unit) = (shape.inputs as usize, unit_roundoff(shape.dtype));
    let overflow = match shape.dtype {
        Dtype::Float16 => (-16_f64).exp2(),
        _ => 0.0,
    };
    let [gates, ups] = matrices;
    let (mut expected, mut bounds) = (Vec::new(), Vec::new());
    for x in x.chunks_exact(inputs) {
        for (gate, up) in gates.chunks_exact(inputs).zip(ups.chunks_exact(inputs)) {
            let (gate, up) = (product(x, gate, unit), product(x, up, unit));
            let sigmoid = 1.0 / (1.0 + (-gate.value).exp());
            let silu = Bounded {
                value: gate.value * sigmoid,
                off: 1.1 * gate.off
                    + gate.value.abs() * (sigmoid * (5.0 * unit + (-20_f64).exp2()) + overflow),
            };
            let value = silu.value * up.value;
            expected.push(value);
            bounds.push(
                silu.off * (up.value.abs() + up.off)
                    + silu.value.abs() * up.off
                    + unit * value.abs()
                    + smallest_subnormal(shape.dtype),
            );
        }
    }
    (expected, bounds)
}

/// A float32 sum of rounded products, rounded to the type with this unit.
fn product(x: &[f32], weights: &[f32], unit: f64) -> Bounded {
    let (mut value, mut size) = (0.0, 0.0);
    for (&x, &weight) in x.iter().zip(weights) {
        let product = f64::from(x) * f64::from(weight);
        value += product;
        size += product.abs();
    }
    let order = (16.0 + (x.len() as f64).sqrt()) * (-24_f64).exp2();
    Bounded {
        value,
        off: unit * value.abs() + order * size,
    }
}
