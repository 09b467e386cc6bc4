// y = x W^T for M = 2 .. 8 rows on ordinary lanes: every weight is decoded once and used for all rows.
//
// Template: T (x, y), S (scales, biases), M, N, K, BITS, GROUP, NR outputs a simdgroup, SGS simdgroups a threadgroup, VPT = 16 values
// a lane and step. Grid (32 SGS, ceil(N / (NR SGS)), 1), threadgroup (32 SGS, 1, 1). N is a multiple of NR.
//
// Lane l takes values 16 l, 16 l + 512, ... of K. A chunk of 16 never crosses a group, so with X = sum(x) over the chunk
// its share of y is scale * sum(q x) + bias * X. Lanes whose chunk lies past K carry zeros into the final sum.
const int lane = int(thread_index_in_simdgroup);
const int first_output = NR * (SGS * int(threadgroup_position_in_grid.y) + int(simdgroup_index_in_threadgroup));
if (first_output >= N) {
  return;  // A whole simdgroup; no barrier follows.
}

float sums[NR][M];
UNROLL
for (int r = 0; r < NR; ++r) {
  UNROLL
  for (int m = 0; m < M; ++m) {
    sums[r][m] = 0.0f;
  }
}

for (int k = VPT * lane; k < K; k += 32 * VPT) {
  float values[M][VPT];
  float totals[M];
  UNROLL
  for (int m = 0; m < M; ++m) {
    totals[m] = 0.0f;
    UNROLL
    for (int v = 0; v < VPT; v += 4) {
      const float4 f = load4(x + size_t(m) * size_t(K) + size_t(k + v));
      UNROLL
      for (int e = 0; e < 4; ++e) {
        values[m][v + e] = f[e];
      }
      totals[m] += (f[0] + f[1]) + (f[2] + f[3]);
    }
  }
  UNROLL
  for (int r = 0; r < NR; ++r) {
    const size_t output = size_t(first_output + r);
    uint words[(BITS + 1) / 2];
    load_half_column_words<BITS>(w + output * size_t(K / 32 * BITS), k, words);
    float codes[VPT];
    UNROLL
    for (int j = 0; j < VPT; ++j) {
      codes[j] = integer_code<BITS>(words, j);
    }
    // Indexed by name: with few outputs these arrays are small, and live in constant memory.
    const size_t group = output * size_t(K / GROUP) + size_t(k / GROUP);
    const float scale = float(scales[group]);
    const float bias = float(biases[group]);
    UNROLL
    for (int m = 0; m < M; ++m) {
      float dot = 0.0f;
      UNROLL
      for (int j = 0; j < VPT; ++j) {
        dot = fma(codes[j], values[m][j], dot);
      }
      sums[r][m] = fma(scale, dot, fma(bias, totals[m], sums[r][m]));
    }
  }
}

UNROLL
for (int r = 0; r < NR; ++r) {
  UNROLL
  for (int m = 0; m < M; ++m) {
    const float sum = simd_sum(sums[r][m]);
    if (lane == 0) {
      y[size_t(m) * size_t(N) + size_t(first_output + r)] = T(sum);
    }
  }
}
