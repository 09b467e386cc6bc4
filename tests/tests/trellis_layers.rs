//! Linear layers and MLPs over trellis weights: each takes the kernel that its plan names, and what
//! plans promise of results holds.

mod common;

use std::sync::Arc;

use common::trellis::{
    Coded, activations, assert_close, assert_product, assert_same, geometry, on_kernels,
};
use common::{bits, floats, values};
use mlx_kernels::trellis::kernels::{self, MixedOptions, ScatterOptions};
use mlx_kernels::trellis::{
    self, GatePlan, MlpPolicy, Plan, Selection, TrellisLinear, TrellisMlp, TrellisWeight,
};
use mlx_kernels::{Backend, Context, PlanOptions, with_context};
use mlx_rs::Dtype::{self, Bfloat16, Float32};
use mlx_rs::{Array, ops};
use trellis_codec::{Axis, Contract, Layout};

fn along_inputs(bits: u32, [outputs, inputs]: [usize; 2]) -> Coded {
    Coded::random(geometry(
        bits,
        256,
        Axis::Input,
        Layout::Rows,
        [outputs, inputs],
    ))
}

fn along_outputs(bits: u32, layout: Layout, [outputs, inputs]: [usize; 2]) -> Coded {
    Coded::random(geometry(bits, 256, Axis::Output, layout, [inputs, outputs]))
}

fn with_options<R>(options: PlanOptions, scope: impl FnOnce() -> R) -> R {
    let context = Context::clone(&Context::current()).with_options(options);
    with_context(&Arc::new(context), scope)
}

/// `x` times the expanded weight, the stock way, in the type that the plan expands to.
fn by_expansion(x: &Array, weight: &TrellisWeight) -> Array {
    let wide = if Context::current().backend().is_gpu() {
        x.dtype()
    } else {
        Float32
    };
    let matrix = weight.expand(wide).unwrap();
    let y = x.as_dtype(wide).unwrap().matmul(matrix.t()).unwrap();
    y.as_dtype(x.dtype()).unwrap()
}

/// The product by the kernel that a plan names.
fn by_name(plan: Plan, x: &Array, weight: &TrellisWeight) -> Array {
    let selection = Selection::default();
    match plan {
        Plan::Expand => Ok(by_expansion(x, weight)),
        Plan::Reduce => kernels::reduce(x, weight, selection),
        Plan::ReduceShared => kernels::reduce_shared(x, weight, selection),
        Plan::Scatter { lifted, table } => {
            kernels::scatter(x, weight, selection, ScatterOptions { table, lifted })
        }
        Plan::ScatterShared => kernels::scatter_shared(x, weight, selection),
        Plan::Balanced { lifted, table } => {
            kernels::scatter_balanced3(x, weight, ScatterOptions { table, lifted })
        }
        Plan::BalancedShared { table } => kernels::scatter_balanced3_shared(x, weight, table),
        Plan::PrefillTiled => kernels::prefill_tiled(x, weight),
        Plan::PrefillSplit => kernels::prefill_splitk(x, weight),
        other => panic!("no kernel for {other}"),
    }
    .unwrap()
}

#[test]
fn a_layer_s_result_is_that_of_the_kernel_its_plan_names() {
    let layers = [
        along_inputs(4, [24, 512]),
        along_outputs(2, Layout::Rows, [256, 264]),
        along_outputs(3, Layout::BlockPairs, [512, 520]),
    ];
    on_kernels(|backend| {
        for coded in &layers {
            let layer = TrellisLinear::new(coded.weight.clone());
            let (_, inputs) = coded.features();
            for rows in [1, 2, 4, 5, 8, 32, 64] {
                let x = activations(rows, inputs, Bfloat16);
                let plan = layer.plan(&x).unwrap();
                let context = format!("{backend} {plan}, {rows} rows, {:?}", coded.geometry);
                let y = layer.forward(&x).unwrap();
                assert_same(&y, &by_name(plan, &x, &coded.weight), &context);
                assert_same(&y, &trellis::matmul(&x, &coded.weight).unwrap(), &context);
            }
        }
    });
}

#[test]
fn the_simulator_runs_each_kernel_in_its_range() {
    let plan_of = |coded: &Coded, rows, dtype| {
        let (_, inputs) = coded.features();
        let layer = TrellisLinear::new(coded.weight.clone());
        layer.plan(&activations(rows, inputs, dtype)).unwrap()
    };
    let plain = (false, false);
    let scatter = |(lifted, table)| Plan::Scatter { lifted, table };
    common::on(Backend::Sim, || {
        let gate = along_inputs(3, [8, 256]);
        for (rows, plan) in [
            (1, Plan::Reduce),
            (2, Plan::ReduceShared),
            (4, Plan::ReduceShared),
            (5, Plan::PrefillTiled),
            (9, Plan::PrefillWide),
            (16, Plan::PrefillTiled),
            (33, Plan::Expand),
        ] {
            assert_eq!(plan_of(&gate, rows, Bfloat16), plan, "{rows} rows");
        }
        // The profile table is of bfloat16 alone.
        assert_eq!(plan_of(&gate, 5, Float32), Plan::Expand);
        let down = along_outputs(4, Layout::Rows, [256, 264]);
        for (rows, plan) in [
            (1, scatter(plain)),
            (3, Plan::ScatterShared),
            (8, Plan::PrefillSplit),
            (9, Plan::Expand),
        ] {
            assert_eq!(plan_of(&down, rows, Bfloat16), plan, "{rows} rows");
        }
        let pairs = along_outputs(3, Layout::BlockPairs, [512, 9]);
        for (rows, table) in [(2, false), (3, true), (4, true)] {
            let plan = Plan::BalancedShared { table };
            assert_eq!(plan_of(&pairs, rows, Bfloat16), plan, "{rows} rows");
        }
        let layer = TrellisLinear::new(gate.weight.clone());
        let base = layer.with_selection(Selection::UNREFINED);
        let x = activations(3, 256, Bfloat16);
        assert_eq!(base.plan(&x).unwrap(), Plan::Reduce);
    });
}

#[test]
fn leading_dimensions_stay_and_widths_are_checked() {
    let coded = along_inputs(3, [7, 256]);
    on_kernels(|backend| {
        let layer = TrellisLinear::new(coded.weight.clone());
        let x = activations(6, 256, Float32);
        let deep = x.reshape(&[2, 1, 3, 256]).unwrap();
        let y = layer.forward(&deep).unwrap();
        assert_eq!(y.shape(), [2, 1, 3, 7], "{backend}");
        assert_same(
            &y.reshape(&[6, 7]).unwrap(),
            &layer.forward(&x).unwrap(),
            "deep",
        );
        let none = floats(&[], &[0, 256], Float32);
        assert_eq!(layer.forward(&none).unwrap().shape(), [0, 7]);
        let error = layer.forward(&activations(1, 255, Float32)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("255") && text.contains("256"), "{text}");
    });
}

/// Gate, up and down of 256 features, 264 of them inside.
fn mlp(gate_bits: u32, up_bits: u32) -> [Coded; 3] {
    [
        along_inputs(gate_bits, [264, 256]),
        along_inputs(up_bits, [264, 256]),
        along_outputs(3, Layout::Rows, [256, 264]),
    ]
}

fn built([gate, up, down]: &[Coded; 3]) -> TrellisMlp {
    let [gate, up, down] = [gate, up, down].map(|coded| coded.weight.clone());
    TrellisMlp::new(gate, up, down).unwrap()
}

/// The MLP over decoded weights, by float32 products of the stock kind.
fn dense_mlp(x: &Array, parts: &[Coded; 3]) -> Array {
    let product = |x: &Array, coded: &Coded| by_dense(x, coded);
    let gate = product(x, &parts[0]);
    let silu = gate.multiply(ops::sigmoid(&gate).unwrap()).unwrap();
    product(&silu.multiply(product(x, &parts[1])).unwrap(), &parts[2])
}

fn by_dense(x: &Array, coded: &Coded) -> Array {
    let matrix = coded.weight.expand(Float32).unwrap();
    x.as_dtype(Float32).unwrap().matmul(matrix.t()).unwrap()
}

#[test]
fn fused_separate_and_dense_mlps_agree() {
    for (gate_bits, up_bits) in [(3, 3), (2, 4)] {
        let parts = mlp(gate_bits, up_bits);
        // Float32 products of the stock kind have factors of 11 bits on CUDA (TF32).
        let bound = if Backend::Cuda.is_available() {
            4e-3
        } else {
            2e-5
        };
        on_kernels(|backend| {
            for rows in [1, 3, 5] {
                // Small enough that silu is not saturated.
                let x = activations(rows, 256, Float32)
                    .multiply(Array::from_f32(0.05))
                    .unwrap();
                let context = format!("{backend}, {gate_bits} and {up_bits} bits, {rows} rows");
                let y = built(&parts).forward(&x).unwrap();
                let expected = dense_mlp(&x, &parts);
                assert_near(&y, &expected, bound, &context);
                let [gate, up, down] = &parts;
                let gated = trellis::matmul(&x, &gate.weight).unwrap();
                let silu = gated.multiply(ops::sigmoid(&gated).unwrap()).unwrap();
                let gated = silu
                    .multiply(trellis::matmul(&x, &up.weight).unwrap())
                    .unwrap();
                let separate = trellis::matmul(&gated, &down.weight).unwrap();
                assert_near(&y, &separate, bound, &context);
            }
        });
    }
}

/// Holds the largest difference to `bound` of the largest value.
fn assert_near(found: &Array, expected: &Array, bound: f32, context: &str) {
    assert_eq!(found.shape(), expected.shape(), "{context}");
    let (found, expected) = (values(found), values(expected));
    let size = expected
        .iter()
        .fold(0.0_f32, |size, value| size.max(value.abs()));
    for (found, expected) in found.iter().zip(&expected) {
        let off = (found - expected).abs();
        assert!(
            off <= bound * size,
            "{context}: {found} for {expected}, largest {size}"
        );
    }
}

#[test]
fn gate_plans_follow_rows_widths_and_policy() {
    let plan = |gate: &Coded, up: &Coded, rows| {
        trellis::gate_plan(
            &Context::current(),
            &gate.weight,
            &up.weight,
            rows,
            Bfloat16,
        )
    };
    let [gate, wide] = [3, 4].map(|bits| along_inputs(bits, [8, 256]));
    let short = along_inputs(3, [16, 256]);
    common::on(Backend::Sim, || {
        for (rows, expected) in [
            (1, GatePlan::Fused),
            (2, GatePlan::FusedShared),
            (4, GatePlan::FusedShared),
            (5, GatePlan::Separate),
        ] {
            assert_eq!(plan(&gate, &gate, rows), expected, "{rows} rows");
        }
        assert_eq!(plan(&gate, &wide, 3), GatePlan::Mixed { lifted: false });
        assert_eq!(plan(&gate, &short, 1), GatePlan::Separate);
        let verify = PlanOptions {
            mlp_policy: MlpPolicy::VerifyWidth,
            ..PlanOptions::default()
        };
        with_options(verify, || {
            assert_eq!(plan(&gate, &gate, 4), GatePlan::Factored);
            assert_eq!(plan(&gate, &wide, 1), GatePlan::Factored);
            assert_eq!(plan(&gate, &gate, 5), GatePlan::Matrix);
            assert_eq!(plan(&gate, &wide, 8), GatePlan::Matrix);
            assert_eq!(plan(&gate, &gate, 9), GatePlan::Separate);
            let down = along_outputs(3, Layout::BlockPairs, [512, 9]);
            let plan = |rows| trellis::down_plan(&Context::current(), &down.weight, rows, Bfloat16);
            let found = [1, 3, 4, 8].map(plan);
            let expected = [
                Plan::DownFactored,
                Plan::DownFactored,
                Plan::DownMatrix,
                Plan::DownMatrix,
            ];
            assert_eq!(found, expected);
            assert_eq!(plan(9), Plan::Expand);
        });
    });
    common::on(Backend::Cpu, || {
        assert_eq!(plan(&gate, &gate, 1), GatePlan::Separate);
    });
}

#[test]
fn mixed_widths_take_the_mixed_kernel_with_the_stock_tail() {
    let [gate, up, _] = mlp(2, 3);
    on_kernels(|backend| {
        let x = activations(2, 256, Bfloat16);
        let options = MixedOptions::default();
        let fused = kernels::gateup_mixed(&x, &gate.weight, &up.weight, options).unwrap();
        let swiglu = trellis::swiglu(&x, &gate.weight, &up.weight).unwrap();
        assert_same(&swiglu, &fused, &format!("{backend}"));
    });
}

#[test]
fn the_verify_width_policy_stays_close_to_the_packed_one() {
    let parts = mlp(3, 3);
    let verify = PlanOptions {
        mlp_policy: MlpPolicy::VerifyWidth,
        ..PlanOptions::default()
    };
    on_kernels(|backend| {
        for rows in [1, 3, 4, 8] {
            let x = activations(rows, 256, Bfloat16);
            let packed = built(&parts).forward(&x).unwrap();
            let factored = with_options(verify, || built(&parts).forward(&x).unwrap());
            assert_close(&factored, &packed, &format!("{backend}, {rows} rows"));
        }
    });
}

#[test]
fn invariant_plans_give_a_row_the_same_bits_in_any_company() {
    let options = PlanOptions {
        batch_invariant: true,
        ..PlanOptions::default()
    };
    let parts = mlp(3, 2);
    on_kernels(|backend| {
        with_options(options, || {
            let mlp = built(&parts);
            let x = activations(17, 256, Bfloat16);
            let all = bits(&mlp.forward(&x).unwrap());
            let rows = ops::split_equal(&x, 17, 0).unwrap();
            for count in [1, 2, 4, 5, 9] {
                let some = ops::concatenate(&rows[..count], 0).unwrap();
                let found = bits(&mlp.forward(&some).unwrap());
                assert_eq!(found, all[..count * 256], "{backend}, {count} rows");
            }
            let last = bits(&mlp.forward(&rows[16]).unwrap());
            assert_eq!(last, all[16 * 256..], "{backend}");
        });
    });
}

#[test]
fn unfitting_mlps_are_refused() {
    let [gate, up, down] = mlp(3, 3).map(|coded| coded.weight);
    let narrow = along_inputs(3, [8, 256]).weight;
    for (gate, up, down, number) in [
        (&gate, &narrow, &down, "8"),
        (&narrow, &narrow, &down, "264"),
        (&gate, &up, &up, "256"),
    ] {
        let error = TrellisMlp::new(gate.clone(), up.clone(), down.clone()).unwrap_err();
        assert!(error.to_string().contains(number), "{error}");
    }
    let x = activations(1, 256, Float32);
    let error = trellis::swiglu(&x, &gate, &narrow).unwrap_err().to_string();
    assert!(error.contains("264 x 256"), "{error}");
    assert!(
        "fast"
            .parse::<MlpPolicy>()
            .unwrap_err()
            .contains("verify-width")
    );
    assert_eq!("verify-width".parse(), Ok(MlpPolicy::VerifyWidth));
}

#[test]
fn products_are_within_bounds_of_float64() {
    let coded = along_outputs(5, Layout::Rows, [256, 40]);
    on_kernels(|backend| {
        for rows in [1, 2, 4] {
            let x = activations(rows, 40, Dtype::Float16);
            let y = trellis::matmul(&x, &coded.weight).unwrap();
            let context = format!("{backend}, {rows} rows");
            assert_product(&y, &x, &coded, Contract::Unrefined, &context);
        }
    });
}
