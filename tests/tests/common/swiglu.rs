//! `silu(gate) * up` on the host, with the roundings of the kernels' tails.

use mlx_kernels::Backend;
use mlx_kernels::trellis::kernels::Tail;
use mlx_rs::{Array, Dtype, ops};

use super::trellis::assert_same;
use super::{floats, unit, values};

/// The tail on rounded products, operation by operation. Its exponential is the host's, as the
/// simulator's is.
pub fn on_host(gate: &Array, up: &Array, tail: Tail) -> Array {
    let dtype = gate.dtype();
    let round = |value: f32| values(&floats(&[value], &[1], dtype))[0];
    let result: Vec<f32> = (values(gate).into_iter().zip(values(up)))
        .map(|(gate, up)| {
            let sigmoid = match tail {
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
            round(round(gate * sigmoid) * up)
        })
        .collect();
    floats(&result, gate.shape(), dtype)
}

/// MLX's operations, on the current device.
fn in_mlx(gate: &Array, up: &Array) -> Array {
    let silu = gate.multiply(ops::sigmoid(gate).unwrap()).unwrap();
    silu.multiply(up).unwrap()
}

/// Holds `found` to the tail of these products.
///
/// The simulator has the host's exponential, so there every bit is compared with [`on_host`]. On a GPU
/// the stock tail has the bits of MLX's own operations, and the other tail lies within roundings of
/// [`on_host`]. The stock tail lies within roundings of MLX's operations everywhere.
pub fn assert_swiglu(
    found: &Array,
    [gate, up]: [&Array; 2],
    tail: Tail,
    backend: Backend,
    context: &str,
) {
    let host = on_host(gate, up, tail);
    match (backend, tail) {
        (Backend::Sim, _) => assert_same(found, &host, context),
        (_, Tail::Stock) => assert_same(found, &in_mlx(gate, up), context),
        (_, Tail::Float) => assert_near(found, &host, context),
    }
    if tail == Tail::Stock {
        assert_near(found, &in_mlx(gate, up), context);
    }
}

/// Within what other roundings of the exponential explain. A sigmoid near 0 may be flushed to it.
fn assert_near(found: &Array, expected: &Array, context: &str) {
    assert_eq!(found.dtype(), expected.dtype(), "{context}");
    let (relative, least) = (6.0 * unit(found.dtype()), smallest(found.dtype()));
    for (i, (found, expected)) in values(found).iter().zip(values(expected)).enumerate() {
        let off = f64::from(found - expected).abs();
        let bound = relative * f64::from(expected).abs() + least;
        assert!(
            off <= bound || (found.is_nan() && expected.is_nan()),
            "{context}: element {i} is {found:e}, expected {expected:e}"
        );
    }
}

/// A size that the smallest normal sigmoid times gate and up reaches in tests.
fn smallest(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float16 => 1e-2,
        _ => 1e-30,
    }
}
