//! What a row's bits may not depend on: its company, its place, memory beside its operands.

use std::sync::Arc;

use mlx_kernels::affine::{self, Plan};
use mlx_kernels::{Context, PlanOptions, with_context};
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype, ops};

use super::super::{Failure, Findings, same_bits, within_bounds};
use super::problem::{Operands, Problem, Shape};

/// Row counts over which batch-invariant plans are compared.
const INVARIANT_ROWS: i32 = 17;

/// Every row of a batch of any of these sizes has the bits of that row alone.
pub fn company(plan: Plan, shape: Shape, counts: &[i32]) -> Result<Findings, Failure> {
    let most = counts.iter().copied().max().unwrap_or(shape.rows);
    let problem = Problem::random(Shape {
        rows: most,
        ..shape
    });
    let alone = (0..most as usize)
        .map(|row| alone(&problem, plan, row))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    let mut findings = Findings::default();
    for &rows in counts {
        let y = problem.first_rows(rows).run(plan)?;
        let expected = &alone[..(rows * shape.n) as usize];
        findings = findings.and(same_bits("a row alone and in company", &y, expected)?);
    }
    Ok(findings)
}

/// Row `row` by itself. A kernel that takes no fewer than two rows gets it twice.
fn alone(problem: &Problem, plan: Plan, row: usize) -> Result<Vec<f32>, Failure> {
    let least = if plan == Plan::Rows { 2 } else { 1 };
    let mut y = problem.with_x(problem.row(row).repeat(least)).run(plan)?;
    y.truncate(problem.shape.n as usize);
    Ok(y)
}

/// A row keeps its bits at every place of the block, and beside rows of NaN and infinity.
pub fn neighbours(plan: Plan, shape: Shape) -> Result<Findings, Failure> {
    let problem = Problem::random(shape);
    let (rows, n, k) = (shape.rows as usize, shape.n as usize, shape.k as usize);
    let y = problem.run(plan)?;
    let mut findings = Findings::default();
    for good in [0, rows / 2, rows - 1] {
        let own = &y[good * n..(good + 1) * n];
        let mut x = problem.x.clone();
        for (row, values) in x.chunks_exact_mut(k).enumerate() {
            if row != good {
                let bad = [f32::NAN, f32::INFINITY][row % 2];
                values.fill(bad);
            }
        }
        let beside_bad = problem.with_x(x.clone()).run(plan)?;
        let found = &beside_bad[good * n..(good + 1) * n];
        findings = findings.and(same_bits("a row beside NaN and infinity", found, own)?);

        let place = (good + 1) % rows;
        x.rotate_right(k);
        let moved = problem.with_x(x).run(plan)?;
        let found = &moved[place * n..(place + 1) * n];
        findings = findings.and(same_bits("a row at another place", found, own)?);
    }
    Ok(findings)
}

/// Operands that are views at an odd offset into memory that is otherwise NaN or ones give the bits
/// of their copies: nothing past a row or an array takes part, and no alignment is assumed.
pub fn views(plan: Plan, shape: Shape) -> Result<Findings, Failure> {
    let problem = Problem::random(shape);
    let plain = problem.operands();
    let surrounded = Operands {
        x: surround(&plain.x)?,
        w: surround(&plain.w)?,
        scales: surround(&plain.scales)?,
        biases: surround(&plain.biases)?,
    };
    let expected = problem.run_on(plan, &plain)?;
    let found = problem.run_on(plan, &surrounded)?;
    same_bits("views and copies", &found, &expected)
}

/// The array as a view of a buffer in which one element of rubbish precedes it and many follow.
fn surround(array: &Array) -> Result<Array, Failure> {
    let rubbish = |count: i32| -> Result<Array, Failure> {
        if array.dtype() == Dtype::Uint32 {
            return Ok(Array::from_slice(&vec![u32::MAX; count as usize], &[count]));
        }
        let nan = Array::from_slice(&vec![f32::NAN; count as usize], &[count]);
        Ok(nan.as_dtype(array.dtype())?)
    };
    let flat = array.reshape(&[-1])?;
    let size = flat.dim(0);
    let buffer = ops::concatenate(&[&rubbish(1)?, &flat, &rubbish(4096)?], 0)?;
    buffer.eval()?;
    Ok(buffer.index(1..=size).reshape(array.shape())?)
}

/// Other tilings of a split product: with as many splits the bits are the same, since a tile's sum
/// does not know of other tiles; with other splits the result is within its bounds.
pub fn tilings(shape: Shape, splits: i32) -> Result<Findings, Failure> {
    let problem = Problem::random(shape);
    let by = |tiles, splits| problem.run(Plan::SplitMma { tiles, splits });
    let first = by(1, splits)?;
    let mut findings = Findings::default();
    for tiles in [2, 4] {
        let found = by(tiles, splits)?;
        findings = findings.and(same_bits("tiles of one split", &found, &first)?);
    }
    for other in [1, 2, 4, 8].into_iter().filter(|&other| other != splits) {
        let plan = Plan::SplitMma {
            tiles: 1,
            splits: other,
        };
        let (expected, bounds) = problem.reference(plan);
        let found = within_bounds(&by(1, other)?, &expected, &bounds)?;
        findings = findings.and(found);
    }
    Ok(findings)
}

/// Under batch-invariant plans a row has the same bits at every number of rows.
pub fn invariance(shape: Shape, context: &Context) -> Result<Findings, Failure> {
    let options = PlanOptions {
        batch_invariant: true,
        ..PlanOptions::default()
    };
    let context = Arc::new(context.clone().with_options(options));
    let problem = Problem::random(Shape {
        rows: INVARIANT_ROWS,
        ..shape
    });
    let planned = |problem: &Problem| -> Result<Vec<f32>, Failure> {
        let Operands {
            x,
            w,
            scales,
            biases,
        } = problem.operands();
        let (group, bits) = (shape.group, shape.bits);
        let planned = with_context(&context, || {
            affine::quantized_matmul(&x, &w, &scales, Some(&biases), true, group, bits)
        })?;
        problem.values(&planned.result)
    };
    let all = planned(&problem)?;
    let n = shape.n as usize;
    let mut findings = Findings::default();
    for rows in 1..INVARIANT_ROWS {
        let first = planned(&problem.first_rows(rows))?;
        let expected = &all[..rows as usize * n];
        findings = findings.and(same_bits("rows under invariant plans", &first, expected)?);
        let row = rows as usize;
        let alone = planned(&problem.with_x(problem.row(row).to_vec()))?;
        let expected = &all[row * n..(row + 1) * n];
        findings = findings.and(same_bits("a row under invariant plans", &alone, expected)?);
    }
    Ok(findings)
}
