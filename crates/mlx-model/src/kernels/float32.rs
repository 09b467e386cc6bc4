//! A float32 matrix product over all cores, as a lazy node on the CPU, where MLX's own runs on one.

use mlx_kernels_cpu::dense;
use mlx_rs::Array;
use rayon::prelude::*;

use super::host_product::host_product;
use crate::error::Result;

/// Rows of the matrix of one task.
const PANEL: usize = 64;

/// `x` times the transpose of `matrix`: float32 `[.., columns]` and `[rows, columns]` to `[.., rows]`.
pub(super) fn matmul(x: &Array, matrix: &Array) -> Result<Array> {
    host_product("float32_matmul", x, matrix, multiply)
}

/// `y[i, j] = sum over k of x[i, k] * matrix[j, k]`.
fn multiply(x: &[f32], matrix: &[f32], columns: usize, y: &mut [f32]) {
    let (rows, outputs) = (x.len() / columns, matrix.len() / columns);
    // Each task has a panel of `y^T` of its own, whose columns are rows of y.
    let mut transposed = vec![0.0; y.len()];
    transposed
        .par_chunks_mut(PANEL * rows)
        .zip(matrix.par_chunks(PANEL * columns))
        .for_each(|(out, panel)| dense::multiply_transposed(panel, x, columns, out));
    for (row, y) in y.chunks_exact_mut(outputs).enumerate() {
        for (output, y) in y.iter_mut().enumerate() {
            *y = transposed[output * rows + row];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_plain_sums_at_ragged_sizes() {
        for (rows, outputs, columns) in [(1, 1, 1), (3, 5, 7), (2, 130, 64), (65, 9, 33)] {
            let value = |i: usize| ((i * 7919) % 101) as f32 / 16.0 - 3.0;
            let x: Vec<f32> = (0..rows * columns).map(value).collect();
            let matrix: Vec<f32> = (0..outputs * columns).map(|i| value(i + 13)).collect();
            let mut y = vec![f32::NAN; rows * outputs];
            multiply(&x, &matrix, columns, &mut y);
            for i in 0..rows {
                for j in 0..outputs {
                    // Exact: multiples of 2^-8 whose sums fit float32.
                    let expected: f32 = (0..columns)
                        .map(|k| x[i * columns + k] * matrix[j * columns + k])
                        .sum();
                    assert_eq!(y[i * outputs + j], expected, "{i} {j}");
                }
            }
        }
    }

    #[test]
    fn is_a_node_with_the_leading_dimensions_of_x() {
        let x = Array::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[1, 2, 2]);
        let matrix = Array::from_slice(&[1.0_f32, 1.0, 0.5, 0.0, 2.0, -1.0], &[3, 2]);
        let y = matmul(&x, &matrix).unwrap();
        assert_eq!(y.shape(), [1, 2, 3]);
        let expected = [3.0, 0.5, 0.0, 7.0, 1.5, 2.0];
        assert_eq!(y.to_vec_exact::<f32>().unwrap(), expected);
    }
}
