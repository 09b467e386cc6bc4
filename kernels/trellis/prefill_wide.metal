// y = x W^T for codes that run along the inputs, each decoded row of the weight shared by all M rows of x.
//
// Template: T (x, y), S (scales), R outputs, C inputs, TB weights a block, K bits a weight, L state bits, M, LANES 16
// or 32 of a simdgroup that share an output. Grid (32 ceil(R / 4), LANES / 8, 1), threadgroup (32, LANES / 8, 1): 4
// outputs.
//
// The inputs are walked in vectors of 4, and those in chunks of 8 LANES, vector i LANES + lane of a chunk being the
// lane's number i. Its dot products of a chunk are added up before they join the lane's result; vectors past the last
// whole chunk join it one by one. Lanes past the last output repeat it and store nothing.
constexpr int WORDS = TB * K / 32;
constexpr int PER_CHUNK = 8;
constexpr int VECTORS = C / 4;
constexpr int CHUNKED = VECTORS - VECTORS % (PER_CHUNK * LANES);
const int lane = int(thread_index_in_simdgroup) % LANES;
const int simdgroup = int(simdgroup_index_in_threadgroup);
const int in_simdgroup = int(thread_index_in_simdgroup) / LANES;
const int output = 4 * int(threadgroup_position_in_grid.x) + 32 / LANES * simdgroup + in_simdgroup;
const int row = min(output, R - 1);
const float scale = float(scales[row]);

float results[M];
UNROLL
for (int m = 0; m < M; ++m) {
  results[m] = 0.0f;
}
for (int chunk = 0; chunk < CHUNKED; chunk += PER_CHUNK * LANES) {
  float4 weights[PER_CHUNK];
  UNROLL
  for (int i = 0; i < PER_CHUNK; ++i) {
    const int column = 4 * (chunk + i * LANES + lane);
    weights[i] = rounded_columns<T, K, L, WORDS>(
        codes + block_word<0>(row, column / TB, R, C / TB, WORDS), TB - 4 - column % TB, scale);
  }
  UNROLL
  for (int m = 0; m < M; ++m) {
    float sum = 0.0f;
    UNROLL
    for (int i = 0; i < PER_CHUNK; ++i) {
      sum += dot(weights[i], load4(x + size_t(m) * size_t(C) + size_t(4 * (chunk + i * LANES + lane))));
    }
    results[m] += sum;
  }
}
for (int vector = CHUNKED + lane; vector < VECTORS; vector += LANES) {
  const int column = 4 * vector;
  const float4 weights = rounded_columns<T, K, L, WORDS>(
      codes + block_word<0>(row, column / TB, R, C / TB, WORDS), TB - 4 - column % TB, scale);
  UNROLL
  for (int m = 0; m < M; ++m) {
    results[m] += dot(weights, load4(x + size_t(m) * size_t(C) + size_t(column)));
  }
}

UNROLL
for (int m = 0; m < M; ++m) {
  UNROLL
  for (int distance = LANES / 2; distance >= 1; distance /= 2) {
    results[m] += simd_shuffle_down(results[m], ushort(distance));
  }
  if (lane == 0 && output < R) {
    y[size_t(m) * size_t(R) + size_t(output)] = T(results[m]);
  }
}
