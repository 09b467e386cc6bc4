//! Products on the host in the kernels' own order of float32 operations, so that they can be held
//! to their bits wherever that order is defined.
//!
//! All take `x`, `[M, K]`, and `matrix`, `[N, K]`, and give float32 `[M, N]`.

use mlx_kernels::trellis::kernels::SplitPartition;

/// Every result of `x` and `matrix` by `result`, from a row of each.
fn each(
    x: &[f32],
    matrix: &[f32],
    inner: usize,
    result: impl Fn(&[f32], &[f32]) -> f32,
) -> Vec<f32> {
    x.chunks(inner)
        .flat_map(|x| {
            matrix
                .chunks(inner)
                .map(|w| result(x, w))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn chain(x: &[f32], w: &[f32]) -> f32 {
    x.iter().zip(w).fold(0.0, |sum, (x, w)| x.mul_add(*w, sum))
}

/// One chain of fused multiply-adds a result: what 8x8 matrices give where each adds its terms in
/// order.
pub fn chained(x: &[f32], matrix: &[f32], inner: usize) -> Vec<f32> {
    each(x, matrix, inner, chain)
}

/// A chain for each part of the inner dimension, and the chains' sums in order.
pub fn in_parts(x: &[f32], matrix: &[f32], inner: usize, parts: SplitPartition) -> Vec<f32> {
    let (splits, length) = (parts.splits() as usize, parts.length() as usize);
    each(x, matrix, inner, |x, w| {
        (0..splits).fold(0.0, |sum, part| {
            let end = if part + 1 == splits {
                inner
            } else {
                (part + 1) * length
            };
            sum + chain(&x[part * length..end], &w[part * length..end])
        })
    })
}

/// Vectors of 4 dealt out to `lanes` lanes in turn, 8 to each in a chunk that is summed first and
/// what is left of them one by one; the lanes' results are added in halves.
pub fn by_lanes(x: &[f32], matrix: &[f32], inner: usize, lanes: usize) -> Vec<f32> {
    each(x, matrix, inner, |x, w| {
        let dots: Vec<f32> = x
            .chunks(4)
            .zip(w.chunks(4))
            .map(|(x, w)| dot(x, w))
            .collect();
        let (chunks, left) = dots.split_at(dots.len() - dots.len() % (8 * lanes));
        let mut results = vec![0.0_f32; lanes];
        for chunk in chunks.chunks(8 * lanes) {
            for (lane, result) in results.iter_mut().enumerate() {
                *result += chunk.iter().skip(lane).step_by(lanes).sum::<f32>();
            }
        }
        for (i, dot) in left.iter().enumerate() {
            results[i % lanes] += dot;
        }
        while results.len() > 1 {
            let upper = results.split_off(results.len() / 2);
            results.iter_mut().zip(upper).for_each(|(a, b)| *a += b);
        }
        results[0]
    })
}

/// Rounded products, added in order.
fn dot(x: &[f32], w: &[f32]) -> f32 {
    let products = x.iter().zip(w).map(|(x, w)| x * w);
    products.reduce(|sum, product| sum + product).unwrap_or(0.0)
}
