//! The host codec of trellis weights against the golden cases.

use integration_tests::golden::{self, Case};
use safetensors::Dtype;
use trellis_codec::{
    Axis, Contract, Format, Geometry, Layout, codebook, decode, decode_states, deinterleave,
    interleave, packing,
};

/// The geometry that a case's arrays and parameters describe.
fn geometry(case: &Case) -> Geometry {
    let format = Format::new(case.int("k") as u32, 12, 256).unwrap();
    let axis = Axis::from_index(case.int("axis") as u32).unwrap();
    let layout = match case.text("layout") {
        "interleaved" => Layout::BlockPairs,
        _ => Layout::Rows,
    };
    let (n, depth) = (case.int("n"), case.int("depth"));
    let (rows, cols) = match axis {
        Axis::Input => (n, depth),
        Axis::Output => (depth, n),
    };
    Geometry::new(format, axis, layout, rows, cols).unwrap()
}

fn matmul_cases() -> Vec<Case> {
    [
        "trellis_axis1",
        "trellis_axis0",
        "trellis_axis0_interleaved",
    ]
    .into_iter()
    .flat_map(golden::load)
    .collect()
}

#[test]
fn values_of_every_state() {
    let case = &golden::load("trellis_table")[0];
    assert_eq!(codebook::values(12), case.tensor("values").f32());
}

#[test]
fn geometry_derives_from_the_arrays() {
    for case in matmul_cases() {
        let expected = geometry(&case);
        let (codes, scales) = (case.tensor("codes"), case.tensor("scales"));
        let derived =
            Geometry::derive(&expected.entry(), Dtype::U32, &codes.shape, &scales.shape).unwrap();
        assert_eq!(derived, expected, "{}", case.name);
    }
}

#[test]
fn weights_are_exact() {
    let mut checked = 0;
    for case in matmul_cases() {
        let Some(weights) = case.tensors.get("weights") else {
            continue;
        };
        let codes = case.tensor("codes").u32();
        let scales = case.tensor("scales").to_f32();
        let decoded = decode(&geometry(&case), &codes, &scales, Contract::Exact).unwrap();
        assert_eq!(decoded, weights.f32(), "{}", case.name);
        checked += 1;
    }
    assert_eq!(checked, 15, "cases that hold weights");
}

#[test]
fn products_are_within_tolerance() {
    for case in matmul_cases() {
        let geometry = geometry(&case);
        let scales = case.tensor("scales").to_f32();
        let codes = case.tensor("codes").u32();
        let weights = decode(&geometry, &codes, &scales, Contract::Exact).unwrap();
        let x = case.tensor("x").to_f32();
        let (expected, tol) = (case.tensor("expected").f32(), case.tensor("tol").f32());
        let (n, depth) = (geometry.output_features(), geometry.input_features());
        for (i, (want, tol)) in expected.iter().zip(tol).enumerate() {
            let (row, col) = (i / n, i % n);
            let weight = |d: usize| match geometry.axis() {
                Axis::Input => weights[col * depth + d],
                Axis::Output => weights[d * n + col],
            };
            let sum: f64 = (0..depth)
                .map(|d| f64::from(x[row * depth + d]) * f64::from(weight(d)))
                .sum();
            let off = (sum - f64::from(*want)).abs();
            assert!(
                off <= f64::from(tol),
                "{}: element {i} is off by {off}",
                case.name
            );
        }
    }
}

#[test]
fn codes_survive_unpacking_and_rearranging() {
    for case in matmul_cases() {
        let geometry = geometry(&case);
        let codes = case.tensor("codes").u32();
        let (rowwise, row_codes) = match geometry.layout() {
            Layout::Rows => (geometry, codes.clone()),
            Layout::BlockPairs => deinterleave(&geometry, &codes).unwrap(),
        };
        let states = decode_states(&geometry, &codes).unwrap();
        assert_eq!(
            packing::pack(geometry.format(), &states).unwrap(),
            row_codes,
            "{}",
            case.name
        );
        if geometry.layout() == Layout::BlockPairs {
            assert_eq!(interleave(&rowwise, &row_codes).unwrap(), (geometry, codes));
        }
    }
}
