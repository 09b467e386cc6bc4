//! What a row's result must not depend on: whatever stands beside it.

use super::super::{Failure, Findings, same_bits};
use super::Shape;
use super::product::activations;

/// A kernel with its weights: x `[M, inputs]` to the result `[M, outputs]`, both in row-major order.
pub type Product<'a> = dyn Fn(&[f32], &Shape) -> Result<Vec<f32>, Failure> + 'a;

/// Every row of a batch has the bits of that row alone, or of the smallest batch that there is.
pub fn company(shape: Shape, counts: &[i32], product: &Product<'_>) -> Result<Findings, Failure> {
    let most = counts.iter().copied().max().unwrap_or(shape.rows);
    let least = counts.iter().copied().min().unwrap_or(shape.rows) as usize;
    let whole = Shape {
        rows: most,
        ..shape
    };
    let x = activations(&whole);
    let (inputs, outputs) = (shape.inputs as usize, shape.outputs as usize);
    let few = Shape {
        rows: least as i32,
        ..shape
    };
    let mut alone = Vec::new();
    for row in x.chunks_exact(inputs) {
        let y = product(&row.repeat(least), &few)?;
        alone.extend_from_slice(&y[..outputs]);
    }
    let mut findings = Findings::default();
    for &rows in counts {
        let some = Shape { rows, ..shape };
        let found = product(&x[..rows as usize * inputs], &some)?;
        let expected = &alone[..rows as usize * outputs];
        findings = findings.and(same_bits("a row in other company", &found, expected)?);
    }
    Ok(findings)
}

/// A row keeps its bits beside rows of NaN and infinity.
pub fn neighbours(shape: &Shape, product: &Product<'_>) -> Result<Findings, Failure> {
    let x = activations(shape);
    let (inputs, outputs) = (shape.inputs as usize, shape.outputs as usize);
    let y = product(&x, shape)?;
    let mut findings = Findings::default();
    for good in 0..shape.rows as usize {
        let mut beside = x.clone();
        for (row, values) in beside.chunks_exact_mut(inputs).enumerate() {
            if row != good {
                values.fill([f32::NAN, f32::INFINITY][row % 2]);
            }
        }
        let found = product(&beside, shape)?;
        let own = good * outputs..(good + 1) * outputs;
        let same = same_bits(
            "a row beside NaN and infinity",
            &found[own.clone()],
            &y[own],
        )?;
        findings = findings.and(same);
    }
    Ok(findings)
}
