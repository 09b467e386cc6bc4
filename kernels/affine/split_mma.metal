// y = x W^T for any number of rows on the 8x8 matrix unit, blocks of 8 rows along grid z, K split over simdgroups.
//
// Template: T (x, y), S (scales, biases), N, K, BITS, GROUP, TILES tiles of 8 outputs a simdgroup, SPLITS simdgroups a threadgroup. The
// number of rows is read from x's shape, so that one pipeline serves all of them.
// Grid (32 SPLITS, N / (8 TILES), ceil(M / 8)), threadgroup (32 SPLITS, 1, 1). N is a multiple of 8 TILES.
//
// Layout as in mma.metal and columns.h. Simdgroup number i takes the 256-value steps i, i + SPLITS, ...; the partial
// products are added in that order. Rows past the end repeat the last row, and their results are not stored: a block
// costs the same however many rows it has, and the loop needs no test for them.
threadgroup float partials[SPLITS * TILES * 64];

const int lane = int(thread_index_in_simdgroup);
const int split = int(simdgroup_index_in_threadgroup);
const int row = fragment_row(lane);
const int column = fragment_column(lane);
const int first_output = 8 * TILES * int(threadgroup_position_in_grid.y);
const int first_row = 8 * int(threadgroup_position_in_grid.z);
const int rows = x_shape[0];

const device T* x0 = x + size_t(min(first_row + column, rows - 1)) * size_t(K);
const device T* x1 = x + size_t(min(first_row + column + 1, rows - 1)) * size_t(K);

simdgroup_float8x8 sums[TILES];
UNROLL
for (int t = 0; t < TILES; ++t) {
  sums[t].thread_elements()[0] = 0.0f;
  sums[t].thread_elements()[1] = 0.0f;
}

for (int base = 256 * split; base < K; base += 256 * SPLITS) {
  WeightColumns<BITS> weights[TILES];
  UNROLL
  for (int t = 0; t < TILES; ++t) {
    weights[t] = load_columns<BITS, GROUP, K>(w, scales, biases, first_output + 8 * t + row, base + 32 * column);
    to_fraction_form<BITS>(weights[t]);
  }
  const int position_k = base + 32 * row;
  const bool live = K % 256 == 0 || position_k < K;
  UNROLL
  for (int v = 0; v < 8; ++v) {
    float4 values0 = float4(0.0f);
    float4 values1 = float4(0.0f);
    if (live) {
      values0 = load4(x0 + position_k + 4 * v);
      values1 = load4(x1 + position_k + 4 * v);
    }
    UNROLL
    for (int e = 0; e < 4; ++e) {
      const int s = 4 * v + e;
      simdgroup_float8x8 b;
      b.thread_elements()[0] = values0[e];
      b.thread_elements()[1] = values1[e];
      UNROLL
      for (int t = 0; t < TILES; ++t) {
        simdgroup_float8x8 a;
        a.thread_elements()[0] = fraction_weight<BITS>(weights[t], 0, s);
        a.thread_elements()[1] = fraction_weight<BITS>(weights[t], 1, s);
        simdgroup_multiply_accumulate(sums[t], a, b, sums[t]);
      }
    }
  }
}

UNROLL
for (int t = 0; t < TILES; ++t) {
  const int element = 64 * (TILES * split + t) + 8 * row + column;
  partials[element] = sums[t].thread_elements()[0];
  partials[element + 1] = sums[t].thread_elements()[1];
}
threadgroup_barrier(mem_flags::mem_threadgroup);

for (int element = 32 * split + lane; element < 64 * TILES; element += 32 * SPLITS) {
  const int output = first_output + element / 8;
  const int m = first_row + element % 8;
  if (m < rows) {
    float sum = 0.0f;
    UNROLL
    for (int i = 0; i < SPLITS; ++i) {
      sum += partials[64 * TILES * i + element];
    }
    y[size_t(m) * size_t(N) + size_t(output)] = T(sum);
  }
}
