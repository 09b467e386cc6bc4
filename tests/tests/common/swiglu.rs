//! `silu(gate) * up` with the roundings of the kernels' tails, and weights for it.

use mlx_kernels::Backend;
use mlx_kernels::trellis::kernels::Tail;
use mlx_rs::{Array, Dtype, ops, transforms::compile::compile};
use trellis_codec::{Axis, Layout};

use super::trellis::{Coded, assert_same, geometry};
use super::{Random, floats, unit, values};

/// Gate and up of these widths and extents; the codes of equal widths differ, too.
pub fn pair([gate, up]: [u32; 2], block: usize, [rows, cols]: [usize; 2]) -> [Coded; 2] {
    let shape = |bits| geometry(bits, block, Axis::Input, Layout::Rows, [rows, cols]);
    let gate = Coded::random(shape(gate));
    let up = shape(up);
    let mut random = Random::new(u64::from(up.format().bits()) + 77);
    let codes = random.words(up.words());
    let scales: Vec<f32> = (0..rows).map(|_| random.float() * 0.1).collect();
    [gate, Coded::new(up, codes, &scales, Dtype::Float16)]
}

/// Normally distributed activations.
pub fn gaussian(rows: i32, inputs: i32, deviation: f32, dtype: Dtype) -> Array {
    let values = Random::new(rows as u64).normals((rows * inputs) as usize, deviation);
    floats(&values, &[rows, inputs], dtype)
}

/// The tail on rounded products, operation by operation. Its exponential is the host's, as the
/// simulator's is.
fn on_host(gate: &Array, up: &Array, tail: Tail) -> Array {
    let dtype = gate.dtype();
    let round = |value: f32| values(&floats(&[value], &[1], dtype))[0];
    let sigmoid = |gate: f32| match tail {
        Tail::Float => round(1.0 / (1.0 + (-gate).exp())),
        Tail::Stock => {
            let below_half = round(1.0 / round(1.0 + round(gate.abs().exp())));
            let above = round(1.0 - below_half);
            if gate < 0.0 { below_half } else { above }
        }
    };
    let result: Vec<f32> = (values(gate).into_iter().zip(values(up)))
        .map(|(gate, up)| round(round(gate * sigmoid(gate)) * up))
        .collect();
    floats(&result, gate.shape(), dtype)
}

/// MLX's compiled `silu(gate) * up` on the current device.
fn compiled(gate: &Array, up: &Array) -> Array {
    let swiglu = |inputs: &[Array]| {
        let silu = inputs[0].multiply(ops::sigmoid(&inputs[0]).unwrap());
        vec![silu.unwrap().multiply(&inputs[1]).unwrap()]
    };
    let inputs = [gate.clone(), up.clone()];
    compile(swiglu, false)(&inputs).unwrap().remove(0)
}

/// Holds `found` to the tail of these products.
///
/// The simulator has the host's exponential, so there every bit is compared with [`on_host`]. On a GPU
/// the stock tail has the bits of MLX's compiled operations, and the other tail lies within roundings
/// of [`on_host`]. On the CPU, whose exponential MLX computes in its own way, the compiled operations
/// lie within roundings of the stock tail.
pub fn assert_swiglu(
    found: &Array,
    [gate, up]: [&Array; 2],
    tail: Tail,
    backend: Backend,
    context: &str,
) {
    let host = on_host(gate, up, tail);
    match (backend, tail) {
        (Backend::Sim, Tail::Float) => assert_same(found, &host, context),
        (Backend::Sim, Tail::Stock) => {
            assert_same(found, &host, context);
            assert_near(found, &compiled(gate, up), up, context);
        }
        (_, Tail::Float) => assert_near(found, &host, up, context),
        (_, Tail::Stock) => assert_same(found, &compiled(gate, up), context),
    }
}

/// Within a few roundings of the result; of a sigmoid so small that a float16 rounds it coarsely; and of
/// an exponential whose error grows with its argument.
fn assert_near(found: &Array, expected: &Array, up: &Array, context: &str) {
    let rounding = 6.0 * unit(found.dtype()) + 2.0_f64.powi(-18);
    let coarse = if found.dtype() == Dtype::Float16 {
        2.0_f64.powi(-20)
    } else {
        0.0
    };
    let pairs = values(found).into_iter().zip(values(expected));
    for (i, ((found, expected), up)) in pairs.zip(values(up)).enumerate() {
        let off = f64::from(found - expected).abs();
        let bound = rounding * f64::from(expected).abs() + coarse * f64::from(up).abs() + 1e-30;
        assert!(
            off <= bound,
            "{context}: element {i} is {found:e}, expected {expected:e}"
        );
    }
}
