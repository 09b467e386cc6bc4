//! Dense products for the error feedback, over all cores.
//!
//! Each output element is one ordered sum, whatever the number of threads.

use rayon::prelude::*;

/// A row-major view of part of a matrix.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Elements from one row to the next.
    pub(crate) stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// A view of `rows` x `cols` elements from the start of `data`.
    ///
    /// # Panics
    /// When `data` is too short.
    pub(crate) fn new(data: &'a [T], rows: usize, cols: usize, stride: usize) -> Self {
        assert!(
            cols <= stride && (rows == 0 || data.len() >= (rows - 1) * stride + cols),
            "a matrix view fits its data"
        );
        Self {
            data,
            rows,
            cols,
            stride,
        }
    }
}

/// Rows of one task.
const PANEL: usize = 64;

/// `out += a^T b` for `a` of `k` x `m` and `b` of `k` x `n`; `out` is `m` x `n` without gaps.
pub(crate) fn add_transposed_product(a: Matrix<'_, f32>, b: Matrix<'_, f32>, out: &mut [f32]) {
    let (depth, n) = (a.rows, b.cols);
    assert!(
        depth == b.rows && out.len() == a.cols * n,
        "the shapes of a product agree"
    );
    if out.is_empty() || depth == 0 {
        return;
    }
    out.par_chunks_mut(PANEL * n)
        .enumerate()
        .for_each(|(panel, out)| {
            let first = panel * PANEL;
            // SAFETY: the panel has `out.len() / n` rows; element (i, p) of its left factor is `a[p][first + i]`, inside
            // the view because `first + i < a.cols`; `b` is read inside its view; both were checked when built.
            unsafe {
                matrixmultiply::sgemm(
                    out.len() / n,
                    depth,
                    n,
                    1.0,
                    a.data.as_ptr().add(first),
                    1,
                    a.stride as isize,
                    b.data.as_ptr(),
                    b.stride as isize,
                    1,
                    1.0,
                    out.as_mut_ptr(),
                    n as isize,
                    1,
                );
            }
        });
}

/// Subtracts `a a^T` from the lower triangle of the trailing square of a matrix.
///
/// `square` holds full rows of `stride` elements; row `i`, from column `first` on, receives row `i` of the product up
/// to its diagonal (and a few elements beyond, in the strictly upper part).
pub(crate) fn subtract_gram(a: Matrix<'_, f64>, square: &mut [f64], first: usize, stride: usize) {
    assert!(
        square.len() == a.rows * stride && first + a.rows <= stride,
        "the square fits its rows"
    );
    if a.cols == 0 {
        return;
    }
    square
        .par_chunks_mut(PANEL * stride)
        .enumerate()
        .for_each(|(panel, rows)| {
            let (top, count) = (panel * PANEL, rows.len() / stride);
            // SAFETY: rows `top..top + count` of `a` times the transpose of rows `0..top + count`, all inside the view;
            // the result starts at column `first` of each row of the panel and `first + top + count <= stride`.
            unsafe {
                let left = a.data.as_ptr().add(top * a.stride);
                let (row, one) = (a.stride as isize, 1);
                let out = rows.as_mut_ptr().add(first);
                matrixmultiply::dgemm(
                    count,
                    a.cols,
                    top + count,
                    -1.0,
                    left,
                    row,
                    one,
                    a.data.as_ptr(),
                    one,
                    row,
                    1.0,
                    out,
                    stride as isize,
                    1,
                );
            }
        });
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "small integers are exact")]
mod tests {
    use super::*;

    #[test]
    fn transposed_products_add_up() {
        let (m, n, depth) = (130, 3, 5);
        let a: Vec<f32> = (0..depth * 140).map(|i| (i % 7) as f32).collect();
        let b: Vec<f32> = (0..depth * n).map(|i| (i % 5) as f32 - 2.0).collect();
        let mut out = vec![1.0; m * n];
        add_transposed_product(
            Matrix::new(&a, depth, m, 140),
            Matrix::new(&b, depth, n, n),
            &mut out,
        );
        for (i, got) in out.iter().enumerate() {
            let (row, col) = (i / n, i % n);
            let expected: f32 = (0..depth).map(|p| a[p * 140 + row] * b[p * n + col]).sum();
            assert_eq!(*got, 1.0 + expected);
        }
    }

    #[test]
    fn gram_matrices_are_subtracted_from_the_lower_triangle() {
        let (n, depth, stride, first) = (70, 2, 75, 4);
        let a: Vec<f64> = (0..n * 3).map(|i| f64::from(i as i32 % 11)).collect();
        let mut square = vec![5.0; n * stride];
        subtract_gram(Matrix::new(&a, n, depth, 3), &mut square, first, stride);
        for row in 0..n {
            for col in 0..=row {
                let expected: f64 = (0..depth).map(|p| a[row * 3 + p] * a[col * 3 + p]).sum();
                assert_eq!(square[row * stride + first + col], 5.0 - expected);
            }
        }
    }
}
