//! Residual addition with RMS norm.

use std::fmt;

use mlx_kernels::ops;
use mlx_rs::Dtype;

use super::floats::{self, name, round, smallest_normal, smallest_subnormal, unit_roundoff};
use super::random::Random;
use super::{Failure, Findings, same_bits, within_bounds};

/// One check at one width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Element type.
    pub dtype: Dtype,
    /// Rows.
    pub rows: i32,
    /// Elements of a row.
    pub columns: i32,
    /// What is checked.
    pub check: Check,
}

/// What is checked of the pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The residual is the rounded sum; the norm is within its bound of float64, and takes its two
    /// roundings where they belong: before the weight and after.
    Random,
    /// Rows whose norm is known.
    Exact,
    /// A row's bits do not depend on the other rows, NaN and infinity included.
    Company,
}

/// Operands, row-major.
struct Problem {
    dtype: Dtype,
    columns: usize,
    x: Vec<f32>,
    update: Vec<f32>,
    weight: Vec<f32>,
    eps: f32,
}

impl Case {
    /// Runs the check.
    pub(super) fn run(&self) -> Result<Findings, Failure> {
        match self.check {
            Check::Random => self.random().check(),
            Check::Exact => self.exact(),
            Check::Company => self.company(),
        }
    }

    fn random(&self) -> Problem {
        let (rows, columns) = (self.rows as usize, self.columns as usize);
        let mut random = Random::new((self.columns * 31 + self.rows) as u64);
        let mut normals = |count| -> Vec<f32> {
            let values = random.normals(count).into_iter();
            values.map(|value| round(value, self.dtype)).collect()
        };
        Problem {
            dtype: self.dtype,
            columns,
            x: normals(rows * columns),
            update: normals(rows * columns),
            weight: normals(columns),
            eps: 1e-5,
        }
    }

    fn exact(&self) -> Result<Findings, Failure> {
        let columns = self.columns as usize;
        let row = |value: f32| vec![value; columns];
        let problem = |x: Vec<f32>, update: Vec<f32>, eps| Problem {
            dtype: self.dtype,
            columns,
            x,
            update,
            weight: vec![1.0; columns],
            eps,
        };
        let mut findings = Findings::default();
        // In bfloat16 256 + 1 is a tie and rounds to 256, and so does its square's root.
        for (x, update) in [(2.0, 2.0), (256.0, 1.0)] {
            let (_, normalized) = problem(row(x), row(update), 0.0).run()?;
            let unit = 2.0 * unit_roundoff(self.dtype);
            let (one, near) = (vec![1.0; columns], vec![unit; columns]);
            findings = findings.and(within_bounds(&normalized, &one, &near)?);
        }
        let x = self.random().x[..columns].to_vec();
        let minus: Vec<f32> = x.iter().map(|value| -value).collect();
        for (eps, expected) in [(1e-6, 0.0), (0.0, f32::NAN)] {
            let (residual, normalized) = problem(x.clone(), minus.clone(), eps).run()?;
            findings = findings
                .and(same_bits("x cancelled", &residual, &row(0.0))?)
                .and(same_bits("the norm of zeros", &normalized, &row(expected))?);
        }
        Ok(findings)
    }

    fn company(&self) -> Result<Findings, Failure> {
        let problem = self.random();
        let columns = problem.columns;
        let (residual, normalized) = problem.run()?;
        let mut findings = Findings::default();
        for row in 0..self.rows as usize {
            let own = row * columns..(row + 1) * columns;
            let alone = Problem {
                x: problem.x[own.clone()].to_vec(),
                update: problem.update[own.clone()].to_vec(),
                weight: problem.weight.clone(),
                ..problem
            };
            let found = alone.run()?;
            findings = findings
                .and(same_bits("a row alone", &found.0, &residual[own.clone()])?)
                .and(same_bits("a row alone", &found.1, &normalized[own])?);
        }
        let mut x = problem.x.clone();
        x[0] = f32::NAN;
        x[columns] = f32::INFINITY;
        let (_, beside_bad) = Problem { x, ..problem }.run()?;
        let mut expected = vec![f32::NAN; columns];
        expected.extend(vec![0.0; columns]);
        expected[columns] = f32::NAN;
        expected.extend(&normalized[2 * columns..]);
        // Infinity divides: the signs of the zeros are those of the row and its weights.
        let found: Vec<f32> = beside_bad
            .iter()
            .enumerate()
            .map(|(i, &y)| if i / columns == 1 { y.abs() } else { y })
            .collect();
        Ok(findings.and(same_bits(
            "rows beside NaN and infinity",
            &found,
            &expected,
        )?))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            dtype,
            rows,
            columns,
            check,
        } = self;
        write!(f, "{check:?}: {rows} x {columns}, {}", name(*dtype))
    }
}

impl Problem {
    /// Residual and norm by the operation.
    fn run(&self) -> Result<(Vec<f32>, Vec<f32>), Failure> {
        let shape = [(self.x.len() / self.columns) as i32, self.columns as i32];
        let operand = |values: &[f32]| floats::array(values, &shape, self.dtype);
        let weight = floats::array(&self.weight, &shape[1..], self.dtype);
        let (residual, normalized) =
            ops::add_rms_norm(operand(&self.x), operand(&self.update), weight, self.eps)?;
        Ok((floats::values(&residual)?, floats::values(&normalized)?))
    }

    fn check(&self) -> Result<Findings, Failure> {
        let (residual, normalized) = self.run()?;
        let sums: Vec<f32> = self
            .x
            .iter()
            .zip(&self.update)
            .map(|(x, update)| round(x + update, self.dtype))
            .collect();
        let mut findings = same_bits("the rounded sum", &residual, &sums)?;
        let rows = sums.chunks_exact(self.columns);
        for (sums, normalized) in rows.zip(normalized.chunks_exact(self.columns)) {
            findings = findings.and(self.check_row(sums, normalized)?);
        }
        Ok(findings)
    }

    /// The norm of one row, from its rounded residual.
    fn check_row(&self, residual: &[f32], normalized: &[f32]) -> Result<Findings, Failure> {
        let squares: f64 = residual.iter().map(|&r| f64::from(r).powi(2)).sum();
        let inverse = (squares / self.columns as f64 + f64::from(self.eps))
            .sqrt()
            .recip();
        // What the sum of squares in float32, its root and a product may be off by.
        let single = (8.0 + (self.columns as f64).sqrt()) * (-24_f64).exp2();
        let unit = unit_roundoff(self.dtype);
        let (mut expected, mut bounds) = (Vec::new(), Vec::new());
        for ((&r, &weight), (index, &found)) in residual
            .iter()
            .zip(&self.weight)
            .zip(normalized.iter().enumerate())
        {
            let scaled = f64::from(r) * inverse;
            let value = scaled * f64::from(weight);
            let size = value.abs().max(smallest_normal(self.dtype));
            expected.push(value);
            bounds.push((2.5 * unit + single) * size + smallest_subnormal(self.dtype));
            // Rounded to the type before the weight and once more after: rounding is monotonic, so
            // whatever lies within the error of float32 comes out between these two.
            let twice = |scaled: f64| round(round(scaled as f32, self.dtype) * weight, self.dtype);
            let (a, b) = (
                twice(scaled * (1.0 - single)),
                twice(scaled * (1.0 + single)),
            );
            if !(a.min(b)..=a.max(b)).contains(&found) {
                let (contract, expected) = ("rounded before the weight and after", twice(scaled));
                return Err(Failure::Bits {
                    contract,
                    index,
                    found,
                    expected,
                });
            }
        }
        Ok(within_bounds(normalized, &expected, &bounds)?.and(Findings::equal(1)))
    }
}
