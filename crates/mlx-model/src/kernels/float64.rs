//! A matrix product with float64 sums, as a lazy node on the CPU.

use mlx_rs::Array;
use rayon::prelude::*;

use super::host_product::host_product;
use crate::error::Result;

/// Rows of the matrix that share each load of x.
const BLOCK: usize = 4;
/// Independent partial sums of a dot product, so that additions need not wait for each other.
const LANES: usize = 4;

/// `x` times the transpose of `matrix`: float32 `[.., columns]` and `[rows, columns]` to `[.., rows]`.
/// Products and sums are float64; each result is rounded once.
pub(super) fn matmul(x: &Array, matrix: &Array) -> Result<Array> {
    host_product("float64_matmul", x, matrix, multiply)
}

/// `y[i, j] = sum over k of x[i, k] * matrix[j, k]`.
fn multiply(x: &[f32], matrix: &[f32], columns: usize, y: &mut [f32]) {
    let x: Vec<f64> = x.iter().copied().map(f64::from).collect();
    let (rows, outputs) = (x.len() / columns, matrix.len() / columns);
    let blocks: Vec<Vec<[f64; BLOCK]>> = matrix
        .par_chunks(BLOCK * columns)
        .map(|block| {
            // A last block of fewer rows is filled up with zeros.
            let mut wide = vec![0.0; BLOCK * columns];
            for (wide, &weight) in wide.iter_mut().zip(block) {
                *wide = f64::from(weight);
            }
            x.chunks_exact(columns).map(|x| dots(x, &wide)).collect()
        })
        .collect();
    for row in 0..rows {
        for (output, y) in y[row * outputs..][..outputs].iter_mut().enumerate() {
            *y = blocks[output / BLOCK][row][output % BLOCK] as f32;
        }
    }
}

/// Dot products of `x` with each of the rows that lie one behind the other in `block`.
fn dots(x: &[f64], block: &[f64]) -> [f64; BLOCK] {
    let mut sums = [[0.0; LANES]; BLOCK];
    let mut rows = block.chunks_exact(x.len());
    let rows: [&[f64]; BLOCK] = std::array::from_fn(|_| rows.next().unwrap_or_default());
    let whole = x.len() - x.len() % LANES;
    for start in (0..whole).step_by(LANES) {
        let x = &x[start..start + LANES];
        for (sums, row) in sums.iter_mut().zip(rows) {
            let row = &row[start..start + LANES];
            for lane in 0..LANES {
                sums[lane] += x[lane] * row[lane];
            }
        }
    }
    std::array::from_fn(|index| {
        let tail: f64 = x[whole..]
            .iter()
            .zip(&rows[index][whole..])
            .map(|(x, w)| x * w)
            .sum();
        sums[index].iter().sum::<f64>() + tail
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_plain_sums_at_ragged_sizes() {
        for (rows, outputs, columns) in [(1, 1, 1), (3, 5, 7), (2, 8, 64), (5, 9, 33)] {
            let value = |i: usize| ((i * 7919) % 101) as f32 / 16.0 - 3.0;
            let x: Vec<f32> = (0..rows * columns).map(value).collect();
            let matrix: Vec<f32> = (0..outputs * columns).map(|i| value(i + 13)).collect();
            let mut y = vec![0.0; rows * outputs];
            multiply(&x, &matrix, columns, &mut y);
            for i in 0..rows {
                for j in 0..outputs {
                    // Exact: multiples of 2^-8 whose sums fit float32.
                    let expected: f64 = (0..columns)
                        .map(|k| f64::from(x[i * columns + k]) * f64::from(matrix[j * columns + k]))
                        .sum();
                    assert_eq!(f64::from(y[i * outputs + j]), expected, "{i} {j}");
                }
            }
        }
    }

    #[test]
    fn does_not_lose_what_float32_sums_lose() {
        // 2^30 + 1 - 2^30: a float32 sum gives 0.
        let big = (1 << 15) as f32;
        let x = Array::from_slice(&[big, 1.0, big], &[1, 1, 3]);
        let matrix = Array::from_slice(&[big, 1.0, -big], &[1, 3]);
        let y = matmul(&x, &matrix).unwrap();
        assert_eq!(y.shape(), [1, 1, 1]);
        assert_eq!(y.to_vec_exact::<f32>().unwrap(), [1.0]);
    }
}
