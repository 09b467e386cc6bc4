//! The prefill kernels as a table, and the product of each held to host sums.

use mlx_kernels::trellis::TrellisWeight;
use mlx_kernels::trellis::kernels::{self, SplitPartition};
use mlx_kernels::{Backend, Error};
use mlx_rs::Array;
use mlx_rs::Dtype::{self, Bfloat16, Float32};
use trellis_codec::{Axis, Contract, Geometry, Layout};

use super::sums::{by_lanes, chained, in_parts};
use super::trellis::{Coded, assert_product, assert_same, geometry, kernel_backends, on_kernels};
use super::{floats, on, values};

/// The host's sums, from x `[M, K]`, the matrix `[N, K]`, M, K and N.
type Sums = fn(&[f32], &[f32], [usize; 3]) -> Vec<f32>;

/// One of the kernels.
pub struct Form {
    pub name: &'static str,
    pub multiply: fn(&Array, &TrellisWeight) -> Result<Array, Error>,
    pub is_eligible: fn(&Geometry, i32, Dtype) -> bool,
    sums: Sums,
    /// Whether its order of operations is defined on the back end.
    is_exact: fn(Backend) -> bool,
}

pub const TILED: Form = Form {
    name: "trellis_prefill_tiled",
    multiply: kernels::prefill_tiled,
    is_eligible: kernels::prefill_tiled_is_eligible,
    sums: |x, matrix, [_, inner, _]| chained(x, matrix, inner),
    is_exact: |backend| backend != Backend::Metal,
};

pub const SPLIT: Form = Form {
    name: "trellis_prefill_splitk",
    multiply: kernels::prefill_splitk,
    is_eligible: kernels::prefill_splitk_is_eligible,
    sums: |x, matrix, [rows, inner, outputs]| {
        let parts = SplitPartition::new(rows as i32, inner as i32, outputs as i32);
        in_parts(x, matrix, inner, parts)
    },
    is_exact: |backend| backend != Backend::Metal,
};

pub const WIDE: Form = Form {
    name: "trellis_prefill_wide",
    multiply: kernels::prefill_wide,
    is_eligible: kernels::prefill_wide_is_eligible,
    sums: |x, matrix, [rows, inner, _]| by_lanes(x, matrix, inner, if rows > 5 { 16 } else { 32 }),
    // CUDA's compiler contracts the dot products.
    is_exact: |backend| backend == Backend::Sim,
};

impl Form {
    /// The product with `x` on every back end, held to the host's sums where their order is
    /// defined.
    pub fn check(&self, coded: &Coded, x: &Array) {
        let (outputs, inner) = coded.features();
        let (rows, dtype) = (x.dim(0) as usize, x.dtype());
        assert!((self.is_eligible)(&coded.geometry, x.dim(0), dtype));
        let matrix = coded.matrix(Contract::Exact);
        let matrix = values(&floats(&matrix, &[matrix.len() as i32], dtype));
        let sums = (self.sums)(&values(x), &matrix, [rows, inner, outputs]);
        let expected = floats(&sums, &[rows as i32, outputs as i32], dtype);
        on_kernels(|backend| {
            let y = (self.multiply)(x, &coded.weight).unwrap();
            let context = format!("{backend} {} {:?} {rows} rows", self.name, coded.geometry);
            if (self.is_exact)(backend) {
                assert_same(&y, &expected, &context);
            }
            match dtype {
                Bfloat16 => assert_product(&y, x, coded, Contract::ExactBf16, &context),
                Float32 => assert_product(&y, x, coded, Contract::Exact, &context),
                _ => {}
            }
        });
    }

    /// The error's text for this x.
    pub fn refusal(&self, x: &Array, weight: &TrellisWeight) -> String {
        let backend = kernel_backends()[0];
        let error = on(backend, || (self.multiply)(x, weight).unwrap_err());
        let text = error.to_string();
        assert!(
            text.contains(self.name) && text.contains("supported"),
            "{text}"
        );
        text
    }
}

/// Random codes that run along the inputs.
pub fn along_inputs(bits: u32, outputs: usize, inputs: usize) -> Coded {
    Coded::random(geometry(
        bits,
        256,
        Axis::Input,
        Layout::Rows,
        [outputs, inputs],
    ))
}

/// Random codes that run along the outputs.
pub fn along_outputs(bits: u32, layout: Layout, inputs: usize, outputs: usize) -> Coded {
    Coded::random(geometry(bits, 256, Axis::Output, layout, [inputs, outputs]))
}
