//! The CPU kernels for trellis weights against the golden cases.

use half::{bf16, f16};
use integration_tests::golden::{self, Case};
use mlx_kernels_cpu::trellis::matmul_with;
use mlx_kernels_cpu::{Execution, Floats, FloatsMut, Level};
use safetensors::Dtype;
use trellis_codec::{Axis, Format, Geometry, Layout};

fn geometry(case: &Case) -> Geometry {
    let format = Format::new(case.int("k") as u32, 12, 256).unwrap();
    let layout = match case.text("layout") {
        "interleaved" => Layout::BlockPairs,
        _ => Layout::Rows,
    };
    let (n, depth) = (case.int("n"), case.int("depth"));
    match Axis::from_index(case.int("axis") as u32).unwrap() {
        Axis::Input => Geometry::new(format, Axis::Input, layout, n, depth),
        Axis::Output => Geometry::new(format, Axis::Output, layout, depth, n),
    }
    .unwrap()
}

/// The case's product at a level, with activations and result in the case's type.
fn product(case: &Case, level: Level) -> Vec<f32> {
    let (rows, n) = (case.int("m"), case.int("n"));
    let (codes, scales) = (case.tensor("codes").u32(), case.tensor("scales").f16());
    let execution = Execution {
        level,
        ..Execution::default()
    };
    let geometry = geometry(case);
    let run = |x: Floats<'_>, y: FloatsMut<'_>| {
        matmul_with(
            execution,
            &geometry,
            rows,
            x,
            &codes,
            (&scales[..]).into(),
            y,
        )
        .unwrap();
    };
    let x = case.tensor("x");
    match x.dtype {
        Dtype::F32 => {
            let mut y = vec![f32::NAN; rows * n];
            run((&x.f32()[..]).into(), (&mut y[..]).into());
            y
        }
        Dtype::F16 => {
            let mut y = vec![f16::NAN; rows * n];
            run((&x.f16()[..]).into(), (&mut y[..]).into());
            y.into_iter().map(f16::to_f32).collect()
        }
        Dtype::BF16 => {
            let mut y = vec![bf16::NAN; rows * n];
            run((&x.bf16()[..]).into(), (&mut y[..]).into());
            y.into_iter().map(bf16::to_f32).collect()
        }
        other => panic!("{}: activations are {other:?}", case.name),
    }
}

#[test]
fn products_are_within_tolerance_on_every_level() {
    for file in [
        "trellis_axis1",
        "trellis_axis0",
        "trellis_axis0_interleaved",
    ] {
        for case in golden::load(file) {
            let (expected, tol) = (case.tensor("expected").f32(), case.tensor("tol").f32());
            for level in Level::available() {
                let y = product(&case, level);
                for (i, ((y, want), tol)) in y.iter().zip(&expected).zip(&tol).enumerate() {
                    let off = (y - want).abs();
                    assert!(
                        off <= *tol,
                        "{file}: {} on {level}, element {i}: off by {off}",
                        case.name
                    );
                }
            }
        }
    }
}
