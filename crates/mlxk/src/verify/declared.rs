//! The declared cases, as data.
//!
//! On the simulator a case's price is the compilation of its template arguments: formats, types, N
//! and K, and for some kernels the rows too. So what varies varies around one usual shape a kernel,
//! instead of everything with everything.

use mlx_kernels::Backend;
use mlx_kernels::affine::{BITS, GROUP_SIZES, Plan};
use mlx_rs::Dtype::{self, Bfloat16, Float16, Float32};

use super::affine::{Check, Shape};
use super::argmax::Logits;
use super::floats::FLOATS;
use super::{Case, affine, argmax, bitmask, norm, trellis};

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Every bit width, group size and element type once, but not every combination of them.
    Quick,
    /// Everything that is declared.
    Full,
}

/// What the cases of an affine kernel vary, around a usual shape.
struct Family {
    plan: Plan,
    /// Usual rows and outputs.
    rows: i32,
    outputs: i32,
    /// Row counts that need no compilation beside the usual one's.
    free_counts: &'static [i32],
    /// All row counts to check.
    counts: &'static [i32],
    /// Output counts at the edges of the kernel's tiles.
    edges: &'static [i32],
    /// Whether all combinations of format and type are run, or each of them once.
    combine: bool,
    /// Whether invariant plans take this kernel.
    invariant: bool,
    /// Whether it takes 16-bit types alone.
    narrow: bool,
}

const GPU_FAMILIES: [Family; 4] = [
    Family {
        plan: Plan::Rows,
        rows: 8,
        outputs: 12,
        free_counts: &[8],
        counts: &[2, 3, 4, 5, 6, 7, 8],
        edges: &[4, 8, 1024],
        combine: true,
        invariant: false,
        narrow: false,
    },
    Family {
        plan: Plan::Mma,
        rows: 8,
        outputs: 24,
        free_counts: &[8],
        counts: &[1, 2, 3, 4, 5, 6, 7, 8],
        edges: &[8, 40, 1024],
        combine: true,
        invariant: false,
        narrow: false,
    },
    Family {
        plan: Plan::SplitMma {
            tiles: 1,
            splits: 8,
        },
        rows: 8,
        outputs: 24,
        free_counts: &[1, 5, 8, 13],
        counts: MANY_ROWS,
        edges: &[8, 2040],
        combine: true,
        invariant: true,
        narrow: false,
    },
    Family {
        plan: Plan::SplitMma {
            tiles: 2,
            splits: 2,
        },
        rows: 8,
        outputs: 32,
        free_counts: &[1, 5, 8, 13],
        counts: MANY_ROWS,
        edges: &[16, 2064],
        combine: false,
        invariant: false,
        narrow: false,
    },
];

/// Beside those, what is for NVIDIA GPUs alone. Outputs past a whole tile are computed and not written.
const CUDA_FAMILIES: [Family; 1] = [Family {
    plan: Plan::Tensor,
    rows: 8,
    outputs: 21,
    free_counts: &[8],
    counts: &[1, 2, 3, 4, 5, 6, 7, 8],
    edges: &[1, 15, 16, 17, 1024],
    combine: true,
    invariant: false,
    narrow: true,
}];

const CPU_FAMILIES: [Family; 1] = [Family {
    plan: Plan::Cpu,
    rows: 8,
    outputs: 13,
    free_counts: &[1, 2, 3, 4, 5, 8, 13],
    counts: MANY_ROWS,
    edges: &[1, 4, 7, 33, 1024],
    combine: true,
    invariant: true,
    narrow: false,
}];

const MANY_ROWS: &[i32] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 64];

/// Group sizes and inner widths whose last 256-value step is not full, and one that is long.
const TAILS: [(i32, i32); 9] = [
    (32, 32),
    (32, 96),
    (128, 128),
    (32, 160),
    (64, 320),
    (32, 544),
    (64, 576),
    (64, 5120),
    (32, 5152),
];

/// Types of x and of scales that differ.
const MIXED: [(Dtype, Dtype); 4] = [
    (Float32, Float16),
    (Float32, Bfloat16),
    (Float16, Float32),
    (Bfloat16, Float16),
];

/// The cases that are declared for `backend`.
pub fn declared(backend: Backend, effort: Effort) -> Vec<Case> {
    let (families, more): (&[Family], &[Family]) = match backend {
        Backend::Cpu => (&CPU_FAMILIES, &[]),
        Backend::Cuda => (&GPU_FAMILIES, &CUDA_FAMILIES),
        Backend::Metal | Backend::Sim => (&GPU_FAMILIES, &[]),
    };
    let affine = families
        .iter()
        .chain(more)
        .flat_map(|family| family.cases(effort));
    affine
        .map(Case::Affine)
        .chain(norm_cases(effort).into_iter().map(Case::Norm))
        .chain(argmax_cases(effort).into_iter().map(Case::Argmax))
        .chain(bitmask_cases(effort).into_iter().map(Case::Bitmask))
        .chain(
            trellis::declared(backend, effort)
                .into_iter()
                .map(Case::Trellis),
        )
        .chain(
            trellis::declared_pairs(backend, effort)
                .into_iter()
                .map(Case::TrellisGateup),
        )
        .collect()
}

impl Family {
    fn cases(&self, effort: Effort) -> Vec<affine::Case> {
        let all = effort == Effort::Full && self.combine;
        let mut cases: Vec<_> = formats(all)
            .into_iter()
            .filter(|shape| !(self.narrow && all && shape.x_dtype == Float32))
            .flat_map(|shape| self.format_cases(shape))
            .collect();
        cases.extend(self.usual_cases());
        if effort == Effort::Full {
            cases.extend(self.wider_cases());
        }
        cases
    }

    fn case(&self, shape: Shape, check: Check) -> affine::Case {
        let (rows, n) = (self.rows, self.outputs);
        self.at(Shape { rows, n, ..shape }, check)
    }

    fn at(&self, shape: Shape, check: Check) -> affine::Case {
        let plan = self.plan;
        let shape = if self.narrow && shape.result_dtype() == Float32 {
            let (x_dtype, scale_dtype) = (Float16, Float16);
            Shape {
                x_dtype,
                scale_dtype,
                ..shape
            }
        } else {
            shape
        };
        affine::Case { plan, shape, check }
    }

    /// One format and one type.
    fn format_cases(&self, shape: Shape) -> Vec<affine::Case> {
        let checks = [
            Check::Bounds(self.free_counts),
            Check::OneHot,
            Check::Integers,
            Check::NarrowSteps,
            Check::Extremes,
            Check::Neighbours,
        ];
        checks.map(|check| self.case(shape, check)).to_vec()
    }

    /// At a format or two: one is enough for what does not depend on it.
    fn usual_cases(&self) -> Vec<affine::Case> {
        let mut cases = vec![
            self.case(format(3, 32, Float32), Check::Views),
            self.case(format(8, 128, Float32), Check::Cancellation),
            self.case(format(3, 32, Bfloat16), Check::Company(self.free_counts)),
        ];
        if self.invariant {
            cases.push(self.case(format(4, 64, Bfloat16), Check::Invariance));
        }
        cases
    }

    fn wider_cases(&self) -> Vec<affine::Case> {
        let usual = format(4, 64, Bfloat16);
        let mut cases = vec![
            self.case(usual, Check::Bounds(self.counts)),
            self.case(usual, Check::Company(self.counts)),
            self.case(format(5, 64, Float16), Check::Views),
            self.case(format(2, 32, Bfloat16), Check::Views),
        ];
        if let Plan::SplitMma { .. } = self.plan {
            let shape = format(3, 32, Float32);
            cases.push(self.at(Shape { n: 32, ..shape }, Check::Tilings));
        }
        for (x_dtype, scale_dtype) in MIXED {
            let shape = Shape {
                x_dtype,
                scale_dtype,
                ..format(6, 64, Float32)
            };
            cases.push(self.case(shape, Check::Bounds(self.free_counts)));
        }
        for (group, k) in TAILS {
            let shape = Shape {
                k,
                ..format(3, group, Float32)
            };
            cases.push(self.case(shape, Check::Bounds(self.free_counts)));
        }
        for &n in self.edges {
            let (rows, k) = (self.rows, 64);
            let shape = format(4, 64, Float16);
            let check = Check::Bounds(self.free_counts);
            cases.push(self.at(
                Shape {
                    rows,
                    n,
                    k,
                    ..shape
                },
                check,
            ));
        }
        for dtype in FLOATS {
            let (n, k) = (512, 5120);
            let shape = format(4, 64, dtype);
            cases.push(self.at(Shape { n, k, ..shape }, Check::Relative));
        }
        cases
    }
}

/// The usual shape of a format: an inner width of one whole 256-value step and a tail.
fn format(bits: i32, group: i32, dtype: Dtype) -> Shape {
    let tail = group;
    Shape {
        rows: 8,
        n: 8,
        k: 256 + tail,
        bits,
        group,
        x_dtype: dtype,
        scale_dtype: dtype,
    }
}

/// All combinations of bits, group size and type; or each width once, under a group size and a type
/// that take turns.
fn formats(all: bool) -> Vec<Shape> {
    let mut formats = Vec::new();
    for (b, &bits) in BITS.iter().enumerate() {
        for (g, &group) in GROUP_SIZES.iter().enumerate() {
            for (d, &dtype) in FLOATS.iter().enumerate() {
                if all || (g == b % 3 && d == (b + b / 3) % 3) {
                    formats.push(format(bits, group, dtype));
                }
            }
        }
    }
    formats
}

/// Widths of rows, at the edges of the threads' shares, of simdgroups and of whole rounds.
fn norm_cases(effort: Effort) -> Vec<norm::Case> {
    let columns: &[i32] = match effort {
        Effort::Quick => &[5, 1000, 4097],
        Effort::Full => &[
            1, 3, 4, 5, 127, 128, 129, 1000, 2048, 4095, 4096, 4097, 5120, 8192,
        ],
    };
    let case = |dtype, rows, columns, check| norm::Case {
        dtype,
        rows,
        columns,
        check,
    };
    let mut cases = Vec::new();
    for (i, &columns) in columns.iter().enumerate() {
        let check = norm::Check::Random;
        let turn = FLOATS[i % 3];
        cases.push(case(turn, [1, 2, 17][i % 3], columns, check));
    }
    for dtype in FLOATS {
        cases.push(case(dtype, 3, 130, norm::Check::Random));
        cases.push(case(dtype, 5, 130, norm::Check::Company));
        cases.push(case(dtype, 1, 130, norm::Check::Exact));
    }
    cases
}

/// Vocabularies at the edges of simdgroups, threadgroups and tiles, and those of real models.
fn argmax_cases(effort: Effort) -> Vec<argmax::Case> {
    let vocabularies: &[i32] = match effort {
        Effort::Quick => &[1, 1024, 1025],
        Effort::Full => &[
            1, 2, 31, 127, 128, 129, 1023, 1024, 1025, 32_000, 151_936, 262_144,
        ],
    };
    let case = |dtype, rows, vocabulary, logits| argmax::Case {
        dtype,
        rows,
        vocabulary,
        logits,
    };
    let mut cases = Vec::new();
    for (i, &vocabulary) in vocabularies.iter().enumerate() {
        let rows = if vocabulary < 2000 {
            [1, 3, 64][i % 3]
        } else {
            2
        };
        cases.push(case(FLOATS[i % 3], rows, vocabulary, Logits::Random));
    }
    for dtype in FLOATS {
        for logits in [Logits::Random, Logits::Close, Logits::Tied, Logits::Special] {
            cases.push(case(dtype, 10, 3000, logits));
        }
    }
    cases
}

/// Vocabularies at the edges of words and threadgroups.
fn bitmask_cases(effort: Effort) -> Vec<bitmask::Case> {
    let vocabularies: &[i32] = match effort {
        Effort::Quick => &[31, 129],
        Effort::Full => &[1, 31, 32, 33, 127, 128, 129, 151_936],
    };
    let mut cases = Vec::new();
    for (i, &vocabulary) in vocabularies.iter().enumerate() {
        let (dtype, rows) = (FLOATS[i % 3], [1, 3][i % 2]);
        cases.push(bitmask::Case {
            dtype,
            rows,
            vocabulary,
        });
    }
    for dtype in FLOATS {
        let (rows, vocabulary) = (3, 1000);
        cases.push(bitmask::Case {
            dtype,
            rows,
            vocabulary,
        });
    }
    cases
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::verify::Kernel;

    #[test]
    fn each_kernel_of_a_back_end_has_cases() {
        for backend in Backend::ALL {
            for effort in [Effort::Quick, Effort::Full] {
                let cases = declared(backend, effort);
                for &kernel in Kernel::ALL {
                    let found = cases.iter().any(|case| case.kernel() == kernel);
                    assert_eq!(found, kernel.runs_on(backend), "{kernel} on {backend}");
                }
            }
        }
    }

    #[test]
    fn the_quick_formats_have_every_width_group_and_type() {
        let few = formats(false);
        assert_eq!(few.len(), BITS.len());
        let groups: BTreeSet<i32> = few.iter().map(|shape| shape.group).collect();
        let types: BTreeSet<_> = few.iter().map(|s| format!("{:?}", s.x_dtype)).collect();
        assert_eq!((groups.len(), types.len()), (3, 3));
        assert_eq!(formats(true).len(), 54);
    }

    #[test]
    fn every_product_is_one_that_its_kernel_takes() {
        for backend in [Backend::Sim, Backend::Cpu] {
            for case in declared(backend, Effort::Full) {
                let Case::Affine(case) = case else { continue };
                let Shape { n, k, group, .. } = case.shape;
                assert_eq!(k % group, 0, "{case}");
                let step = match case.plan {
                    Plan::Rows => 4,
                    Plan::SplitMma { tiles, .. } => 8 * tiles,
                    Plan::Cpu => 1,
                    _ => 8,
                };
                assert_eq!(n % step, 0, "{case}");
            }
        }
    }
}
