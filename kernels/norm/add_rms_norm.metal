// residual = x + update and normalized = weight * rms_norm(residual), in one pass over a row.
//
// Template: T, D columns, THREADS = min(1024, 32 ceil(D / 128)), EPS = the bits of eps as a float32. One threadgroup a row: grid
// (rows THREADS, 1, 1), threadgroup (THREADS, 1, 1).
//
// Rounding: the residual is rounded to T before it is squared; residual * v is rounded to T before the weight, and the
// product with the weight again. Geometry and order of the sum (four columns a thread; simdgroup, then threadgroup) are
// those of rms_norm in MLX (Copyright 2023-2024 Apple Inc., MIT licence), so that the sums round alike.
threadgroup float simdgroup_sums[32];
threadgroup float inverse_rms[1];

const uint slot = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const size_t row_start = size_t(threadgroup_position_in_grid.x) * size_t(D);

float squares = 0.0f;
for (uint first = 4u * slot; first < uint(D); first += 4u * uint(THREADS)) {
  const uint end = min(first + 4u, uint(D));
  for (uint i = first; i < end; ++i) {
    const T sum = T(float(x[row_start + i]) + float(update[row_start + i]));
    residual[row_start + i] = sum;
    const float value = float(sum);
    squares += value * value;
  }
}

squares = simd_sum(squares);
if (simdgroup == 0u) {
  simdgroup_sums[lane] = 0.0f;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (lane == 0u) {
  simdgroup_sums[simdgroup] = squares;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (simdgroup == 0u) {
  const float total = simd_sum(simdgroup_sums[lane]);
  if (lane == 0u) {
    inverse_rms[0] = precise::rsqrt(total / float(D) + as_type<float>(EPS));
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);

const float inverse = inverse_rms[0];
for (uint first = 4u * slot; first < uint(D); first += 4u * uint(THREADS)) {
  const uint end = min(first + 4u, uint(D));
  for (uint i = first; i < end; ++i) {
    const T scaled = T(float(residual[row_start + i]) * inverse);
    // A float32 product of two 16-bit floats is exact, so this rounds as the product in T does.
    normalized[row_start + i] = T(float(weight[i]) * float(scaled));
  }
}
