// y = x W^T for up to 8 MT rows on the 8x8 matrix unit; one simdgroup owns 8 outputs for the whole of K.
//
// Template: T (x, y), S (scales, biases), M, N, K, BITS, GROUP, SG_TG simdgroups a threadgroup, MT blocks of 8 rows that share each
// decoded weight. Grid (32 SG_TG, ceil(N / (8 SG_TG)), ceil(M / (8 MT))), threadgroup (32 SG_TG, 1, 1). N is a
// multiple of 8.
//
// The product is transposed: A holds weights (outputs by k), B activations (k by rows of x), C = A B. columns.h says
// which k the positions stand for. Rows of x past M and columns of k past K are exact zeros and are not read.
const int lane = int(thread_index_in_simdgroup);
const int row = fragment_row(lane);
const int column = fragment_column(lane);
const int first_output = 8 * (SG_TG * int(threadgroup_position_in_grid.y) + int(simdgroup_index_in_threadgroup));
const int first_row = 8 * MT * int(threadgroup_position_in_grid.z) + column;
if (first_output >= N) {
  return;  // A whole simdgroup; no barrier follows.
}

simdgroup_float8x8 sums[MT];
UNROLL
for (int block = 0; block < MT; ++block) {
  sums[block].thread_elements()[0] = 0.0f;
  sums[block].thread_elements()[1] = 0.0f;
}

for (int base = 0; base < K; base += 256) {
  const WeightColumns<BITS> weights =
      load_columns<BITS, GROUP, K>(w, scales, biases, first_output + row, base + 32 * column);
  const int position_k = base + 32 * row;
  const bool live = K % 256 == 0 || position_k < K;
  UNROLL
  for (int v = 0; v < 8; ++v) {
    float4 values[MT][2];
    UNROLL
    for (int block = 0; block < MT; ++block) {
      UNROLL
      for (int c = 0; c < 2; ++c) {
        const int m = first_row + 8 * block + c;
        values[block][c] = float4(0.0f);
        if (live && m < M) {
          values[block][c] = load4(x + size_t(m) * size_t(K) + size_t(position_k + 4 * v));
        }
      }
    }
    UNROLL
    for (int e = 0; e < 4; ++e) {
      const int s = 4 * v + e;
      simdgroup_float8x8 a;
      a.thread_elements()[0] = rounded_weight<BITS>(weights, 0, s);
      a.thread_elements()[1] = rounded_weight<BITS>(weights, 1, s);
      UNROLL
      for (int block = 0; block < MT; ++block) {
        simdgroup_float8x8 b;
        b.thread_elements()[0] = values[block][0][e];
        b.thread_elements()[1] = values[block][1][e];
        simdgroup_multiply_accumulate(sums[block], a, b, sums[block]);
      }
    }
  }
}

UNROLL
for (int block = 0; block < MT; ++block) {
  UNROLL
  for (int c = 0; c < 2; ++c) {
    const int m = first_row + 8 * block + c;
    if (m < M) {
      y[size_t(m) * size_t(N) + size_t(first_output + row)] = T(sums[block].thread_elements()[c]);
    }
  }
}
