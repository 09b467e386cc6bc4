//! Products of float32 matrices, on the calling thread.

/// `out[i, j] = sum over k of a[i, k] * b[j, k]`, for row-major matrices of `columns` columns without gaps.
///
/// # Panics
///
/// When `columns` is 0, or the lengths are not those of such matrices.
pub fn multiply_transposed(a: &[f32], b: &[f32], columns: usize, out: &mut [f32]) {
    let (m, n) = (a.len() / columns, b.len() / columns);
    assert!(
        a.len() == m * columns && b.len() == n * columns && out.len() == m * n,
        "the shapes of a product agree"
    );
    let width = columns as isize;
    // SAFETY: a has m rows and b n rows of `columns` elements, and out m rows of n; the strides stay inside.
    unsafe {
        matrixmultiply::sgemm(
            m,
            columns,
            n,
            1.0,
            a.as_ptr(),
            width,
            1,
            b.as_ptr(),
            1,
            width,
            0.0,
            out.as_mut_ptr(),
            n as isize,
            1,
        );
    }
}
