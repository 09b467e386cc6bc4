//! Attention over a cache and the MLP's gate as MLX operations, on every back end of this machine.

mod common;

use common::{FLOATS, Random, backends, bits, floats, on, unit, values};
use mlx_kernels::attention::{self, Cache, Periods, Rotation, Step, attend};
use mlx_kernels::{Backend, Error, affine, gate};
use mlx_rs::{Array, Dtype, ops};

fn random(shape: &[i32], dtype: Dtype, seed: u64) -> Array {
    let count = shape.iter().product::<i32>() as usize;
    floats(&Random::new(seed).floats(count), shape, dtype)
        .as_dtype(dtype)
        .unwrap()
}

/// Queries, keys and values of `tokens` tokens: 4 heads over 2, 16 wide.
fn fresh(tokens: i32, dtype: Dtype, seed: u64) -> [Array; 3] {
    [
        random(&[1, tokens, 4, 16], dtype, seed),
        random(&[1, tokens, 2, 16], dtype, seed + 1),
        random(&[1, tokens, 2, 16], dtype, seed + 2),
    ]
}

fn empty(capacity: i32, dtype: Dtype) -> Cache {
    let room = ops::zeros_dtype(&[1, 2, capacity, 16], dtype).unwrap();
    Cache {
        keys: room.clone(),
        values: room,
    }
}

fn plain() -> Rotation {
    Rotation::new(16, false, Periods::Base(100.0), 1.0, 1.0).unwrap()
}

fn step<'a>(
    [queries, keys, values]: &'a [Array; 3],
    rotation: &'a Rotation,
    offset: i32,
) -> Step<'a> {
    Step {
        queries,
        keys,
        values,
        rotation,
        scale: 0.25,
        offset,
    }
}

fn assert_near(ours: &Array, stock: &Array, steps: f64, context: &str) {
    assert_eq!(
        (ours.shape(), ours.dtype()),
        (stock.shape(), stock.dtype()),
        "{context}"
    );
    for (a, b) in values(ours).into_iter().zip(values(stock)) {
        let allowed = steps * unit(ours.dtype());
        assert!(
            (f64::from(a) - f64::from(b)).abs() <= allowed,
            "{context}: {a} and {b}"
        );
    }
}

#[test]
fn steps_agree_with_mlx_s_operations() {
    let periods: Vec<f32> = (0..6).map(|pair| 1.5_f32.powi(pair)).collect();
    let rotations = [
        plain(),
        Rotation::new(16, true, Periods::Base(100.0), 0.5, 1.0).unwrap(),
        Rotation::new(12, false, Periods::Each(&periods), 1.0, 1.0).unwrap(),
        Rotation::new(16, false, Periods::Base(100.0), 1.0, 1.25).unwrap(),
    ];
    for backend in backends() {
        for dtype in FLOATS {
            for rotation in &rotations {
                let (mut ours, mut stock) = (empty(24, dtype), empty(24, dtype));
                let mut offset = 0;
                for tokens in [5, 1, 17, 1] {
                    let fresh = fresh(tokens, dtype, tokens as u64);
                    let step = step(&fresh, rotation, offset);
                    let context = format!("{backend} {dtype:?}, {tokens} tokens at {offset}");
                    let mixed = on(backend, || attend(&step, &mut ours)).unwrap();
                    let expected = attention::stock(&step, &mut stock).unwrap();
                    assert_near(&mixed, &expected, 24.0, &context);
                    assert_near(&ours.keys, &stock.keys, 24.0, &context);
                    assert_eq!(bits(&ours.values), bits(&stock.values), "{context}");
                    offset += tokens;
                }
            }
        }
    }
}

#[test]
fn a_cache_that_somebody_else_holds_is_copied() {
    let fresh = fresh(1, Dtype::Float32, 3);
    let rotation = plain();
    let mut cache = empty(4, Dtype::Float32);
    let before = cache.clone();
    on(Backend::Cpu, || {
        attend(&step(&fresh, &rotation, 2), &mut cache)
    })
    .unwrap();
    assert!(values(&before.values).iter().all(|&value| value == 0.0));
    let written = values(&cache.values);
    assert_eq!(written[2 * 16..3 * 16], values(&fresh[2])[..16]);
    assert!(written[..2 * 16].iter().all(|&value| value == 0.0));
}

#[test]
fn steps_run_in_order_whichever_is_evaluated_first() {
    let rotation = plain();
    let run = |reversed: bool| {
        let mut cache = empty(3, Dtype::Float32);
        let mixed: Vec<Array> = (0..3)
            .map(|offset| {
                let fresh = fresh(1, Dtype::Float32, offset as u64);
                on(Backend::Cpu, || {
                    attend(&step(&fresh, &rotation, offset), &mut cache)
                })
                .unwrap()
            })
            .collect();
        if reversed {
            mixed[2].eval().unwrap();
        }
        mixed.iter().map(bits).collect::<Vec<_>>()
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn arguments_that_do_not_fit_are_named() {
    let rotation = plain();
    let dtype = Dtype::Float32;
    let refusal = |fresh: &[Array; 3], rotation: &Rotation, offset: i32, mut cache: Cache| {
        attend(&step(fresh, rotation, offset), &mut cache)
            .unwrap_err()
            .to_string()
    };
    let valid = fresh(2, dtype, 1);
    let replaced = |index: usize, shape: &[i32], dtype: Dtype| {
        let mut arrays = valid.clone();
        arrays[index] = random(shape, dtype, 2);
        arrays
    };
    for (fresh, cache, offset, expected) in [
        (
            replaced(0, &[2, 4, 16], dtype),
            empty(4, dtype),
            0,
            "queries has shape",
        ),
        (
            replaced(0, &[2, 2, 4, 16], dtype),
            empty(4, dtype),
            0,
            "queries has shape",
        ),
        (
            replaced(1, &[1, 2, 3, 16], dtype),
            empty(4, dtype),
            0,
            "keys has shape",
        ),
        (
            replaced(1, &[1, 1, 2, 16], dtype),
            empty(4, dtype),
            0,
            "keys has shape",
        ),
        (
            replaced(2, &[1, 2, 2, 8], dtype),
            empty(4, dtype),
            0,
            "values has shape",
        ),
        (valid.clone(), empty(4, dtype), 3, "cached keys has shape"),
        (valid.clone(), empty(4, dtype), -1, "offset is -1"),
        (
            valid.clone(),
            empty(4, Dtype::Float16),
            0,
            "cached keys has dtype",
        ),
        (
            replaced(0, &[1, 2, 4, 16], Dtype::Int32),
            empty(4, dtype),
            0,
            "queries has dtype",
        ),
        (
            replaced(2, &[1, 2, 2, 16], Dtype::Bfloat16),
            empty(4, dtype),
            0,
            "values has dtype",
        ),
    ] {
        let message = refusal(&fresh, &rotation, offset, cache);
        assert!(
            message.contains(&format!("[attention] {expected}")),
            "{message}"
        );
    }
    let wide = Rotation::new(18, false, Periods::Base(100.0), 1.0, 1.0).unwrap();
    let message = refusal(&valid, &wide, 0, empty(4, dtype));
    assert!(message.contains("rotated dimensions is 18"), "{message}");
    for (dimensions, periods) in [
        (3, Periods::Base(1.0)),
        (-2, Periods::Base(1.0)),
        (4, Periods::Each(&[1.0])),
    ] {
        let refused = Rotation::new(dimensions, false, periods, 1.0, 1.0);
        assert!(matches!(refused, Err(Error::Value { .. })));
    }
}

#[test]
fn the_gate_agrees_with_mlx_s_operations() {
    for backend in backends() {
        for dtype in FLOATS {
            for shape in [&[1, 1536][..], &[3, 5, 7], &[0, 4], &[]] {
                let (g, up) = (random(shape, dtype, 1), random(shape, dtype, 2));
                let ours = on(backend, || gate::swiglu(&g, &up)).unwrap();
                let context = format!("{backend} {dtype:?} {shape:?}");
                assert_near(&ours, &gate::stock(&g, &up).unwrap(), 4.0, &context);
            }
        }
    }
}

#[test]
fn gates_that_do_not_fit_are_named() {
    let x = random(&[2, 3], Dtype::Float32, 1);
    for (gate, up, expected) in [
        (
            &x,
            &random(&[3, 2], Dtype::Float32, 1),
            "up has shape [3, 2]",
        ),
        (
            &x,
            &random(&[2, 3], Dtype::Float16, 1),
            "up has dtype Float16",
        ),
        (
            &random(&[2, 3], Dtype::Int32, 1),
            &x,
            "gate has dtype Int32",
        ),
    ] {
        let message = gate::swiglu(gate, up).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn several_products_are_those_of_each_weight() {
    let quantized = |rows: i32, group_size: i32, bits: i32| {
        let weight = random(&[rows, 128], Dtype::Float32, rows as u64);
        ops::quantize(&weight, group_size, bits).unwrap()
    };
    let matrices = [(33, 64, 4), (8, 32, 3), (64, 128, 8)];
    let stored = matrices.map(|(rows, group_size, bits)| quantized(rows, group_size, bits));
    let weights: Vec<affine::Weight<'_>> = stored
        .iter()
        .zip(matrices)
        .map(
            |((w, scales, biases), (_, group_size, bits))| affine::Weight {
                w,
                scales,
                biases,
                group_size,
                bits,
            },
        )
        .collect();
    for backend in backends() {
        for rows in [0, 1, 9] {
            let x = random(&[rows, 128], Dtype::Float32, 9);
            let together = on(backend, || affine::quantized_matmuls(&x, &weights)).unwrap();
            assert_eq!(together.len(), 3);
            for (product, weight) in together.iter().zip(&weights) {
                let (group_size, bits_) = (weight.group_size, weight.bits);
                let alone = on(backend, || {
                    let biases = Some(weight.biases);
                    let (w, scales) = (weight.w, weight.scales);
                    affine::quantized_matmul(&x, w, scales, biases, true, group_size, bits_)
                })
                .unwrap();
                assert_eq!(product.plan, alone.plan);
                assert_eq!(product.result.shape(), alone.result.shape());
                assert_eq!(
                    bits(&product.result),
                    bits(&alone.result),
                    "{backend}, {rows} rows"
                );
            }
        }
        let x = random(&[1, 128], Dtype::Float32, 9);
        assert!(
            on(backend, || affine::quantized_matmuls(&x, &[]))
                .unwrap()
                .is_empty()
        );
        let x = random(&[1, 96], Dtype::Float32, 9);
        let refused = on(backend, || affine::quantized_matmuls(&x, &weights));
        assert!(refused.unwrap_err().to_string().contains("x has shape"));
    }
}
