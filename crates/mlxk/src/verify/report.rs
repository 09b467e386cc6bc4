//! Outcomes by kernel and element type.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Case, Failure, Findings, Kernel, Outcome, dtype_name};

/// What the cases of one kernel and one element type came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The kernel.
    pub kernel: Kernel,
    /// Name of the element type of its results.
    pub dtype: &'static str,
    /// Cases run.
    pub cases: usize,
    /// Cases that do not hold.
    pub failed: usize,
    /// The worst that the holding cases measured.
    pub findings: Findings,
    /// Time spent, compilation included, summed over cases.
    pub time: Duration,
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// By kernel, then element type.
    pub lines: Vec<Line>,
    /// The cases that do not hold, and why, in the order of the cases.
    pub failures: Vec<(Case, Failure)>,
}

impl Report {
    /// Sums up the outcomes of `cases`.
    pub fn new(cases: &[Case], outcomes: &[Outcome]) -> Self {
        let mut lines = BTreeMap::new();
        let mut failures = Vec::new();
        for (case, outcome) in cases.iter().zip(outcomes) {
            let (kernel, dtype) = (case.kernel(), dtype_name(case.dtype()));
            let line = lines.entry((kernel, dtype)).or_insert(Line {
                kernel,
                dtype,
                cases: 0,
                failed: 0,
                findings: Findings::default(),
                time: Duration::ZERO,
            });
            line.cases += 1;
            line.time += outcome.time;
            match &outcome.result {
                Ok(findings) => line.findings = line.findings.and(*findings),
                Err(failure) => {
                    line.failed += 1;
                    failures.push((*case, failure.clone()));
                }
            }
        }
        Self {
            lines: lines.into_values().collect(),
            failures,
        }
    }

    /// Whether every case holds, and there was one.
    pub fn holds(&self) -> bool {
        self.failures.is_empty() && !self.lines.is_empty()
    }
}
