//! Which kernel computes a product.

use std::fmt;

use mlx_op::{Backend, DeviceProfile};
use mlx_rs::Dtype;

use super::problem::Problem;
use super::tables::{self, Choice};
use crate::PlanOptions;

/// Rows of one block of the matrix-unit kernels.
pub const BLOCK_ROWS: i32 = 8;

/// How a product is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Plan {
    /// MLX's own `quantized_matmul`.
    Stock,
    /// MLX's own `quantized_matmul`, one row at a time: slow, but no row sees its neighbours.
    StockByRow,
    /// This project's SIMD code on the CPU.
    Cpu,
    /// Ordinary lanes, each decoded weight used for all rows: 2 to 8 rows.
    Rows,
    /// An NVIDIA GPU's tensor cores, codes streamed through shared memory: 1 to 8 rows of 16-bit
    /// activations.
    Tensor,
    /// The 8x8 matrix unit, one block of 8 rows, K not split: 1 to 8 rows.
    Mma,
    /// The 8x8 matrix unit, K split over simdgroups of a threadgroup: any number of rows.
    SplitMma {
        /// 8-output tiles that a simdgroup owns.
        tiles: i32,
        /// Simdgroups that share K.
        splits: i32,
    },
}

impl Plan {
    /// Whether the kernel can compute this product. Tiles and splits other than those that
    /// [`plan`] picks are eligible too, within the kernel's limits: 1024 threads and 32 KiB of
    /// threadgroup memory.
    pub fn is_eligible(self, problem: &Problem) -> bool {
        match self {
            Self::Stock | Self::StockByRow | Self::Cpu => true,
            Self::Rows => eligible(Choice::Rows, problem).is_some(),
            Self::Tensor => eligible(Choice::Tensor, problem).is_some(),
            Self::Mma => eligible(Choice::Mma, problem).is_some(),
            Self::SplitMma { tiles, splits } => {
                problem.rows >= 1
                    && tiles >= 1
                    && (1..=32).contains(&splits)
                    && tiles <= 128 / splits
                    && problem.n % (8 * tiles) == 0
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stock => f.pad("stock"),
            Self::StockByRow => f.pad("stock-by-row"),
            Self::Cpu => f.pad("cpu"),
            Self::Rows => f.pad("rows"),
            Self::Tensor => f.pad("tensor"),
            Self::Mma => f.pad("mma"),
            Self::SplitMma { tiles, splits } => f.pad(&format!("split-mma({tiles},{splits})")),
        }
    }
}

/// Chooses the kernel for a product. Pure: no device is touched.
pub fn plan(problem: &Problem, profile: &DeviceProfile, options: PlanOptions) -> Plan {
    if profile.backend == Backend::Cpu {
        return Plan::Cpu;
    }
    if options.batch_invariant {
        return invariant(problem);
    }
    tables::for_device(profile)
        .rules
        .iter()
        .filter(|rule| rule.applies(problem))
        .find_map(|rule| eligible(rule.choice, problem))
        .unwrap_or(Plan::Stock)
}

/// The same arithmetic for every row count: the split kernel, whose launch depends on N alone.
fn invariant(problem: &Problem) -> Plan {
    eligible(Choice::SplitMma, problem).unwrap_or(Plan::StockByRow)
}

/// The plan for a choice, if the kernel can compute this product.
pub(crate) fn eligible(choice: Choice, problem: &Problem) -> Option<Plan> {
    let rows = problem.rows;
    match choice {
        Choice::Stock => Some(Plan::Stock),
        Choice::Rows => ((2..=8).contains(&rows) && problem.n % 4 == 0).then_some(Plan::Rows),
        Choice::Tensor => {
            let narrow = matches!(problem.dtype, Dtype::Float16 | Dtype::Bfloat16);
            (narrow && (1..=BLOCK_ROWS).contains(&rows)).then_some(Plan::Tensor)
        }
        Choice::Mma => {
            ((1..=BLOCK_ROWS).contains(&rows) && problem.n % 8 == 0).then_some(Plan::Mma)
        }
        Choice::SplitMma => (rows >= 1 && problem.n % 8 == 0).then(|| split_mma(problem.n)),
    }
}

/// Tiles and splits as a function of N alone, never of the batch. From M1 Max measurements of the
/// reference implementation: wide products have threadgroups enough with two tiles a simdgroup,
/// narrow ones need K split eight ways to fill the GPU.
fn split_mma(n: i32) -> Plan {
    if n >= 2048 && n % 16 == 0 {
        Plan::SplitMma {
            tiles: 2,
            splits: 2,
        }
    } else {
        Plan::SplitMma {
            tiles: 1,
            splits: 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(rows: i32, n: i32) -> Problem {
        Problem {
            rows,
            n,
            k: 1024,
            bits: 4,
            group_size: 64,
            dtype: Dtype::Bfloat16,
            scale_dtype: Dtype::Bfloat16,
        }
    }

    fn profile(backend: Backend) -> DeviceProfile {
        DeviceProfile {
            backend,
            architecture: String::new(),
            cores: None,
        }
    }

    #[test]
    fn the_split_depends_on_n_alone() {
        let wide = Plan::SplitMma {
            tiles: 2,
            splits: 2,
        };
        let narrow = Plan::SplitMma {
            tiles: 1,
            splits: 8,
        };
        for (n, expected) in [
            (8, Some(narrow)),
            (1024, Some(narrow)),
            (2040, Some(narrow)),
            (2047, None),
            (2048, Some(wide)),
            (2056, Some(narrow)),
            (2064, Some(wide)),
            (10240, Some(wide)),
        ] {
            for rows in [1, 8, 9, 64] {
                assert_eq!(
                    eligible(Choice::SplitMma, &problem(rows, n)),
                    expected,
                    "N = {n}"
                );
            }
        }
    }

    #[test]
    fn eligibility_follows_rows_and_outputs() {
        for (choice, rows, n, expected) in [
            (Choice::Rows, 1, 8, false),
            (Choice::Rows, 2, 8, true),
            (Choice::Rows, 8, 12, true),
            (Choice::Rows, 9, 8, false),
            (Choice::Rows, 4, 6, false),
            (Choice::Mma, 1, 8, true),
            (Choice::Mma, 8, 24, true),
            (Choice::Mma, 9, 8, false),
            (Choice::Mma, 1, 12, false),
            (Choice::Tensor, 0, 8, false),
            (Choice::Tensor, 1, 7, true),
            (Choice::Tensor, 8, 8, true),
            (Choice::Tensor, 9, 8, false),
            (Choice::SplitMma, 0, 8, false),
            (Choice::Stock, 0, 1, true),
        ] {
            let plan = eligible(choice, &problem(rows, n));
            assert_eq!(plan.is_some(), expected, "{choice:?}, {rows} rows, N = {n}");
        }
    }

    #[test]
    fn the_cpu_takes_everything() {
        for rows in [1, 8, 64] {
            let plan = plan(
                &problem(rows, 7),
                &profile(Backend::Cpu),
                PlanOptions::default(),
            );
            assert_eq!(plan, Plan::Cpu);
        }
    }

    #[test]
    fn an_invariant_plan_is_one_plan_for_all_rows() {
        let options = PlanOptions {
            batch_invariant: true,
            ..PlanOptions::default()
        };
        for backend in [Backend::Metal, Backend::Cuda, Backend::Sim, Backend::Cpu] {
            for n in [7, 8, 12, 2048] {
                let plans: Vec<_> = (1..=17)
                    .map(|rows| plan(&problem(rows, n), &profile(backend), options))
                    .collect();
                assert!(
                    plans.iter().all(|plan| *plan == plans[0]),
                    "{backend}, N = {n}: {plans:?}"
                );
                assert_ne!(
                    plans[0],
                    Plan::Stock,
                    "stock sums in another order for more rows"
                );
            }
        }
    }

    #[test]
    fn what_no_kernel_takes_is_stock() {
        for backend in [Backend::Metal, Backend::Cuda, Backend::Sim] {
            let wide = Problem {
                dtype: Dtype::Float32,
                ..problem(5, 7)
            };
            let plan = plan(&wide, &profile(backend), PlanOptions::default());
            assert_eq!(plan, Plan::Stock, "{backend}");
        }
    }
}
