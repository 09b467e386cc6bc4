//! The gate of an MLP: float64, special values, refusals.

mod common;

use common::{Elements, Random, bits};
use mlx_kernels_cpu::gate::swiglu;
use mlx_kernels_cpu::{Error, FloatType};

fn gated(gate: &Elements, up: &Elements) -> Result<Vec<f32>, Error> {
    let mut y = gate.clone();
    swiglu(gate.borrow(), up.borrow(), y.borrow_mut())?;
    Ok(y.wide())
}

#[test]
fn equals_float64_rounded_once() {
    for (float_type, unit) in [
        (FloatType::F32, 4e-7),
        (FloatType::F16, 5.5e-4),
        (FloatType::Bf16, 4.2e-3),
    ] {
        for len in [0, 1, 15, 255, 256, 257, 4095, 4097, 30_000] {
            let mut random = Random::new(len as u64);
            let mut draw = |scale: f32| {
                let values: Vec<f32> = (0..len).map(|_| scale * random.unit()).collect();
                Elements::rounded(float_type, &values)
            };
            let (gate, up) = (draw(20.0), draw(3.0));
            let y = gated(&gate, &up).expect("arrays of one length");
            for ((gate, up), y) in gate.wide().iter().zip(up.wide()).zip(y) {
                let gate = f64::from(*gate);
                let expected = gate / (1.0 + (-gate).exp()) * f64::from(up);
                let error = (f64::from(y) - expected).abs();
                // Half precision ends at 2^-24.
                assert!(
                    error <= unit * expected.abs() + 3.1e-8,
                    "{y} for {expected}"
                );
            }
        }
    }
}

#[test]
fn specials_are_those_of_gate_times_sigmoid() {
    let gate = [
        0.0,
        -0.0,
        200.0,
        -200.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1.0,
    ];
    let up = [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 1.0, f32::NAN];
    let y = gated(&Elements::F32(gate.into()), &Elements::F32(up.into())).expect("valid");
    assert_eq!(bits(&y[..4]), bits(&[0.0, -0.0, 400.0, -0.0]));
    assert_eq!(y[4], f32::INFINITY);
    assert!(y[5..].iter().all(|value| value.is_nan()));
}

#[test]
fn arrays_that_do_not_go_together_are_refused() {
    let (four, five) = (Elements::F32(vec![1.0; 4]), Elements::F32(vec![1.0; 5]));
    let narrow = Elements::rounded(FloatType::F16, &[1.0; 4]);
    let length = |argument| Error::Length {
        argument,
        got: 5,
        expected: 4,
    };
    assert_eq!(gated(&four, &five), Err(length("up")));
    let mut y = [7.0; 5];
    let refused = swiglu(four.borrow(), four.borrow(), (&mut y[..]).into());
    assert_eq!((refused, y), (Err(length("y")), [7.0; 5]));
    let refused = gated(&four, &narrow).expect_err("two types");
    assert!(matches!(refused, Error::ElementType { argument: "up", .. }));
    let mut y = [7.0; 4];
    let refused = swiglu(narrow.borrow(), narrow.borrow(), (&mut y[..]).into());
    assert!(matches!(
        refused,
        Err(Error::ElementType { argument: "y", .. })
    ));
}
