//! Checks of a product, or of an expansion, against the host decoder.

use mlx_rs::{Array, Dtype};
use trellis_codec::Contract;

use super::super::floats::{self, round, smallest_subnormal, unit_roundoff};
use super::super::random::Random;
use super::super::{Failure, Findings, same_bits, within_bounds};
use super::coded::Coded;
use super::{Route, Shape};

/// Every weight is the host decoder's.
pub fn matrix(route: Route, shape: &Shape) -> Result<Findings, Failure> {
    let coded = Coded::random(shape, 0)?;
    let found = route.expand(&coded.weight()?, shape.dtype)?;
    let found = checked(&found, coded.extents(), shape.dtype)?;
    let expected: Vec<f32> = (coded.stored(Contract::Exact)?.into_iter())
        .map(|weight| round(weight, shape.dtype))
        .collect();
    same_bits("the host decoder's weights", &found, &expected)
}

/// Every element within its bound, at each number of rows.
pub fn bounds(route: Route, shape: Shape, counts: &[i32]) -> Result<Findings, Failure> {
    let coded = Coded::random(&shape, 0)?;
    let mut matrix = coded.matrix(route.contract())?;
    if route.rounds_weights() {
        let each = matrix.iter_mut();
        each.for_each(|weight| *weight = round(*weight, shape.dtype));
    }
    let mut findings = Findings::default();
    for &rows in counts {
        let shape = Shape { rows, ..shape };
        let x = activations(&shape);
        let (expected, bounds) = reference(&x, &matrix, &shape);
        let found = multiply(route, &coded, &x, &shape)?;
        findings = findings.and(within_bounds(&found, &expected, &bounds)?);
    }
    Ok(findings)
}

/// x with a single 1 a row: the result is a column of weights. Scales are powers of two, so that
/// contracts that apply them at another place give the same products.
pub fn one_hot(route: Route, shape: &Shape) -> Result<Findings, Failure> {
    let coded = Coded::random(shape, 0)?.with_plain_scales();
    let matrix = coded.matrix(route.contract())?;
    let (rows, inputs) = (shape.rows as usize, shape.inputs as usize);
    let mut findings = Findings::default();
    for first in (0..inputs).step_by(rows) {
        let at = |row: usize| (first + row) % inputs;
        let mut x = vec![0.0; rows * inputs];
        for row in 0..rows {
            x[row * inputs + at(row)] = 1.0;
        }
        let expected: Vec<f32> = (0..rows)
            .flat_map(|row| matrix.iter().skip(at(row)).step_by(inputs))
            .map(|&weight| round(weight, shape.dtype) + 0.0)
            .collect();
        let found = multiply(route, &coded, &x, shape)?;
        let found: Vec<f32> = found.into_iter().map(|value| value + 0.0).collect();
        findings = findings.and(same_bits("a single weight", &found, &expected)?);
    }
    Ok(findings)
}

/// Two kernels give the same bits.
pub fn equals(route: Route, other: Route, shape: &Shape) -> Result<Findings, Failure> {
    let coded = Coded::random(shape, 0)?;
    let x = activations(shape);
    let found = multiply(route, &coded, &x, shape)?;
    let expected = multiply(other, &coded, &x, shape)?;
    same_bits("another kernel's product", &found, &expected)
}

/// Normally distributed, exact in x's type.
pub fn activations(shape: &Shape) -> Vec<f32> {
    let count = shape.rows as usize * shape.inputs as usize;
    let values = Random::new(count as u64).normals(count).into_iter();
    values.map(|value| round(value, shape.dtype)).collect()
}

pub fn multiply(
    route: Route,
    coded: &Coded,
    x: &[f32],
    shape: &Shape,
) -> Result<Vec<f32>, Failure> {
    let x = floats::array(x, &[shape.rows, shape.inputs], shape.dtype);
    let y = route.multiply(&x, &coded.weight()?)?;
    checked(&y, [shape.rows, shape.outputs], shape.dtype)
}

/// The elements of a result of this shape and type.
pub fn checked(y: &Array, shape: [i32; 2], dtype: Dtype) -> Result<Vec<f32>, Failure> {
    if y.shape() != shape || y.dtype() != dtype {
        return Err(Failure::Kind {
            found: format!("{:?} of {:?}", y.shape(), y.dtype()),
            expected: format!("{shape:?} of {dtype:?}"),
        });
    }
    floats::values(y)
}

/// The float64 product and each element's error bound: one rounding to the result's type, and for a
/// float32 sum of rounded products `(16 + sqrt(K)) 2^-24` of their magnitudes.
fn reference(x: &[f32], matrix: &[f32], shape: &Shape) -> (Vec<f64>, Vec<f64>) {
    let inputs = shape.inputs as usize;
    let order = (16.0 + (inputs as f64).sqrt()) * (-24_f64).exp2();
    let (unit, floor) = (unit_roundoff(shape.dtype), smallest_subnormal(shape.dtype));
    let (mut expected, mut bounds) = (Vec::new(), Vec::new());
    for x in x.chunks_exact(inputs) {
        for w in matrix.chunks_exact(inputs) {
            let (mut sum, mut size) = (0.0, 0.0);
            for (&x, &w) in x.iter().zip(w) {
                let product = f64::from(x) * f64::from(w);
                sum += product;
                size += product.abs();
            }
            expected.push(sum);
            bounds.push(unit * sum.abs() + order * size + floor);
        }
    }
    (expected, bounds)
}
