// y = x W^T for codes that run along the inputs, tiles of BM x 64 results; each decoded weight serves BM rows.
//
// Template: T (x, y), S (scales), R outputs, C inputs, TB weights a block, K bits a weight, L state bits, BM 8, 16 or
// 32. The number of rows is read from x's shape, so that one pipeline serves all that take BM.
// Grid (128 ceil(R / 64), ceil(rows / BM), 1), threadgroup (128, 1, 1).
//
// The four simdgroups share a tile's 8x8 matrices as 1 x 4 for BM = 8, else 2 x 2, alternating along both axes.
constexpr int BN = 64;
constexpr int SG_M = BM == 8 ? 1 : 2;
constexpr int SG_N = 4 / SG_M;
constexpr int TM = BM / (8 * SG_M);
constexpr int TN = BN / (8 * SG_N);
constexpr int AT_ONCE = TB % 8 == 0 ? 8 : 4;
constexpr int STRIDE = TILE_DEPTH + TILE_PAD;
threadgroup T x_tile[BM * (TILE_DEPTH + TILE_PAD)];
threadgroup T w_tile[BN * (TILE_DEPTH + TILE_PAD)];

const int thread_index = int(thread_index_in_threadgroup);
const int lane = int(thread_index_in_simdgroup);
const int simdgroup = int(simdgroup_index_in_threadgroup);
const int first_output = BN * int(threadgroup_position_in_grid.x);
const int first_row = BM * int(threadgroup_position_in_grid.y);
const int own_row = 8 * (simdgroup / SG_N);
const int own_output = 8 * (simdgroup % SG_N);
const int rows = x_shape[0];

simdgroup_float8x8 sums[TM * TN];
UNROLL
for (int i = 0; i < TM * TN; ++i) {
  sums[i].thread_elements()[0] = 0.0f;
  sums[i].thread_elements()[1] = 0.0f;
}

for (int k = 0; k < C; k += TILE_DEPTH) {
  stage_activations<BM>(x_tile, x, first_row, rows, k, C, thread_index);
  stage_weights<BN, TILE_DEPTH, AT_ONCE, R, C, TB, K, L, 0>(w_tile, codes, scales, first_output, k, thread_index);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  multiply_tiles<TM, TN, 8 * SG_M, 8 * SG_N, STRIDE, 1>(sums, x_tile + own_row * STRIDE, w_tile + own_output * STRIDE,
                                                        lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

UNROLL
for (int i = 0; i < TM * TN; ++i) {
  const int row = first_row + own_row + 8 * SG_M * (i / TN) + fragment_row(lane);
  const int output = first_output + own_output + 8 * SG_N * (i % TN) + fragment_column(lane);
  UNROLL
  for (int c = 0; c < 2; ++c) {
    if (row < rows && output + c < R) {
      y[size_t(row) * size_t(R) + size_t(output + c)] = T(sums[i].thread_elements()[c]);
    }
  }
}
