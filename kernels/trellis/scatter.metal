// partials[m, z, c] = sum over split z of w(r, c) x[m, r], for 1 to 4 rows of x, the code running along the outputs.
// Where DECODE is DECODE_FACTORED, the sum of y(r, c) (x[m, r] (scales[r] step)).
//
// Template: T (x), S (scales), R rows and C columns of codes, TB weights a block, K bits a weight, L state bits, SGS
// simdgroups a threadgroup, SPLITS ranges of rows of codes, DECODE, ROWS rows of x for which a weight is decoded once,
// LAYOUT 0 or 2, PER positions a lane (TB = 32 PER) or 0 (K TB / 32 at most 32). Grid (32 SGS, ceil(G / SGS), SPLITS
// rows of x / ROWS) with G simdgroups for a row of codes, threadgroup (32 SGS, 1, 1). positions.h says who does what.
//
// Rows are added in order, so neither ROWS nor LAYOUT nor PER changes a bit of a result.
threadgroup typename TableEntry<DECODE>::type shared_table[table_entries<DECODE, L>()];
fill_table<DECODE, L>(shared_table, table, uint(thread_index_in_threadgroup), uint(32 * SGS));

constexpr int N = owned_positions<K, PER>();
constexpr int BLOCKS_HERE = owned_blocks<TB, K, PER>();
const int lane = int(thread_index_in_simdgroup);
const int group = SGS * int(threadgroup_position_in_grid.y) + int(simdgroup_index_in_threadgroup);
if (BLOCKS_HERE * group >= C / TB) {
  return;  // A whole simdgroup; no barrier follows.
}
const int split = int(threadgroup_position_in_grid.z) % SPLITS;
const int first_row = ROWS * (int(threadgroup_position_in_grid.z) / SPLITS);
const LaneShare share = lane_share<C / TB, TB, K, PER>(group, lane);
float sums[ROWS * N];
UNROLL
for (int i = 0; i < ROWS * N; ++i) {
  sums[i] = 0.0f;
}

constexpr int SPLIT_ROWS = (R + SPLITS - 1) / SPLITS;
constexpr int STEP = row_words<LAYOUT>(C / TB, TB * K / 32);
const device uint* block = codes + block_word<LAYOUT>(0, share.block, R, C / TB, TB * K / 32);
const int begin = split * SPLIT_ROWS;
const int end = min(begin + SPLIT_ROWS, R);

// The next batch is read while the last one is decoded.
ColumnStates<N, K, L> next[ROWS_AHEAD];
load_batch<R, STEP, TB, K, L, PER>(block, batch_start<R>(begin), share, next);
for (int batch = begin; batch < end; batch += ROWS_AHEAD) {
  ColumnStates<N, K, L> states[ROWS_AHEAD];
  UNROLL
  for (int a = 0; a < ROWS_AHEAD; ++a) {
    states[a] = next[a];
  }
  load_batch<R, STEP, TB, K, L, PER>(block, batch_start<R>(batch + ROWS_AHEAD), share, next);
  UNROLL
  for (int a = 0; a < ROWS_AHEAD; ++a) {
    const int row = batch_start<R>(batch) + a;
    if (row >= batch && row < end) {
      const float scale = float(scales[row]);
      float inputs[ROWS];
      UNROLL
      for (int m = 0; m < ROWS; ++m) {
        const float input = float(x[size_t(first_row + m) * size_t(R) + size_t(row)]);
        inputs[m] = DECODE == DECODE_FACTORED ? input * (scale * code_step()) : input;
      }
      UNROLL
      for (int i = 0; i < N; ++i) {
        const float weight = decoded_weight<DECODE>(column_state(states[a], i), scale, table, shared_table);
        UNROLL
        for (int m = 0; m < ROWS; ++m) {
          sums[N * m + i] = fma(weight, inputs[m], sums[N * m + i]);
        }
      }
    }
  }
}

UNROLL
for (int m = 0; m < ROWS; ++m) {
  store_share<TB, K, PER>(partials + size_t((first_row + m) * SPLITS + split) * size_t(C), share, sums + N * m);
}
