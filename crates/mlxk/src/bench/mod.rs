//! Measuring products: arms side by side on one product, alternating, on weights that rotate through
//! more memory than caches hold.

mod ceiling;
mod operands;
mod timing;

pub use ceiling::bandwidth;
pub use timing::{Spread, alternate};

use anyhow::Context as _;
use mlx_kernels::affine::{self, Plan, Problem};
use mlx_kernels::{Backend, Context, PlanOptions};
use mlx_rs::Dtype;
use serde::Serialize;

use crate::shape::Shape;
use operands::{DenseSets, QuantizedSets};

/// One way of computing the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// MLX's own quantized matmul.
    Stock,
    /// One of this project's kernels.
    Kernel(Plan),
    /// MLX's matmul with the weight in the activations' element type.
    Dense,
}

impl Arm {
    fn name(self) -> String {
        match self {
            Self::Stock => "stock".to_owned(),
            Self::Kernel(plan) => plan.to_string(),
            Self::Dense => "dense".to_owned(),
        }
    }
}

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Outputs and inner width of the weight.
    pub shape: Shape,
    /// Rows of activations.
    pub rows: i32,
    /// Bits a weight.
    pub bits: i32,
    /// Weights that share a scale and a bias.
    pub group_size: i32,
    /// Element type of activations, scales and biases.
    pub dtype: Dtype,
}

impl Case {
    fn problem(self) -> Problem {
        let Self {
            shape,
            rows,
            bits,
            group_size,
            dtype,
        } = self;
        Problem {
            rows,
            n: shape.n,
            k: shape.k,
            bits,
            group_size,
            dtype,
            scale_dtype: dtype,
        }
    }

    /// The arms that this case has under `context`: stock, the planned kernel or every eligible one,
    /// and dense where asked for.
    pub fn arms(self, context: &Context, every_kernel: bool, dense: bool) -> Vec<Arm> {
        let problem = self.problem();
        let planned = affine::plan(&problem, context.profile(), context.options());
        let mut plans = vec![planned];
        if every_kernel && context.backend() != Backend::Cpu {
            let split = PlanOptions {
                batch_invariant: true,
                ..PlanOptions::default()
            };
            let split = affine::plan(&problem, context.profile(), split);
            plans.extend([Plan::Rows, Plan::Mma, split]);
            if context.backend() == Backend::Cuda {
                plans.push(Plan::Tensor);
            }
            plans.retain(|plan| plan.is_eligible(&problem));
            plans.dedup();
        }
        let kernels = plans
            .into_iter()
            .filter(|plan| !matches!(plan, Plan::Stock | Plan::StockByRow))
            .map(Arm::Kernel);
        let mut arms: Vec<_> = std::iter::once(Arm::Stock).chain(kernels).collect();
        let mut seen = Vec::new();
        arms.retain(|arm| {
            !seen.contains(arm) && {
                seen.push(*arm);
                true
            }
        });
        arms.extend(dense.then_some(Arm::Dense));
        arms
    }
}

/// One arm's figures on one case.
#[derive(Debug, Clone, Serialize)]
pub struct Measurement {
    /// Outputs.
    pub n: i32,
    /// Inner width.
    pub k: i32,
    /// Bits a weight.
    pub bits: i32,
    /// Weights that share a scale and a bias.
    pub group_size: i32,
    /// Element type of activations.
    pub dtype: String,
    /// Rows of activations.
    pub rows: i32,
    /// The arm's name.
    pub arm: String,
    /// Microseconds a call.
    pub microseconds: Spread,
    /// The stock median over this one's.
    pub times_stock: f64,
    /// Bytes of weight that a call must read.
    pub bytes: u64,
    /// Those bytes over the median, in 10^9 a second.
    pub gigabytes_per_second: f64,
}

/// Measures every arm of a case in turn, `rounds` times.
pub fn measure(case: Case, arms: &[Arm], rounds: usize) -> anyhow::Result<Vec<Measurement>> {
    let x = operands::activations(case)?;
    let quantized = QuantizedSets::new(case)?;
    let dense = if arms.contains(&Arm::Dense) {
        Some(DenseSets::new(case)?)
    } else {
        None
    };
    let call = |arm: Arm, turn: usize| match arm {
        Arm::Stock => quantized.stock(&x, turn),
        Arm::Kernel(plan) => quantized.by(plan, &x, turn),
        Arm::Dense => dense
            .as_ref()
            .context("the dense arm has no weights")?
            .product(&x, turn),
    };
    let spreads = alternate(arms, rounds, call)?;
    let stock = arms.iter().position(|&arm| arm == Arm::Stock);
    let stock = stock.map_or(f64::NAN, |index| spreads[index].median);
    let figures = arms.iter().zip(spreads).map(|(&arm, microseconds)| {
        let bytes = match arm {
            Arm::Dense => DenseSets::bytes(case),
            Arm::Stock | Arm::Kernel(_) => case.problem().weight_bytes(),
        };
        Measurement {
            n: case.shape.n,
            k: case.shape.k,
            bits: case.bits,
            group_size: case.group_size,
            dtype: format!("{:?}", case.dtype).to_lowercase(),
            rows: case.rows,
            arm: arm.name(),
            times_stock: stock / microseconds.median,
            bytes,
            gigabytes_per_second: bytes as f64 / microseconds.median / 1e3,
            microseconds,
        }
    });
    Ok(figures.collect())
}
