// Products of tiles on the 8x8 matrix unit, the weight decoded into threadgroup memory.
//
// Both operands are staged TILE_DEPTH inner values at a time and hold T, so that the products see rounded weights.
// Every result is one chain of float32 multiply-adds with the inner values ascending, whatever the tile's extents. Rows
// of the staged tiles are TILE_PAD elements longer than their contents, so that lanes that read a column of them meet
// different banks.
#define TILE_DEPTH 16
#define TILE_PAD 8
#define TILE_THREADS 128

// Stages x[first_row ..][first_inner ..], [ROWS, TILE_DEPTH]: zeros past `rows` and past `inner`, the length of x's
// rows.
template <int ROWS, typename T>
inline void stage_activations(threadgroup T* tile, const device T* x, int first_row, int rows, int first_inner,
                              int inner, int thread_index) {
  for (int element = thread_index; element < ROWS * TILE_DEPTH; element += TILE_THREADS) {
    const int row = element / TILE_DEPTH;
    const int k = element % TILE_DEPTH;
    T value = T(0.0f);
    if (first_row + row < rows && first_inner + k < inner) {
      value = x[size_t(first_row + row) * size_t(inner) + size_t(first_inner + k)];
    }
    tile[row * (TILE_DEPTH + TILE_PAD) + k] = value;
  }
}

// Stages the stored matrix from (first_row, first_column) on, [ROWS, COLUMNS], in the same orientation; zeros outside R
// x C. A thread decodes AT_ONCE adjacent columns at a time.
template <int ROWS, int COLUMNS, int AT_ONCE, int R, int C, int TB, int K, int L, int LAYOUT, typename T,
          typename Codes, typename Scales>
inline void stage_weights(threadgroup T* tile, Codes codes, Scales scales, int first_row, int first_column,
                          int thread_index) {
  constexpr int WORDS = TB * K / 32;
  constexpr int PIECES = COLUMNS / AT_ONCE;
  for (int piece = thread_index; piece < ROWS * PIECES; piece += TILE_THREADS) {
    const int tile_row = piece / PIECES;
    const int tile_column = piece % PIECES * AT_ONCE;
    const int row = first_row + tile_row;
    const int column = first_column + tile_column;
    threadgroup T* target = tile + tile_row * (COLUMNS + TILE_PAD) + tile_column;
    if (row < R && column < C) {
      const ColumnStates<AT_ONCE, K, L> states = load_column_states<AT_ONCE, K, L, WORDS>(
          codes + block_word<LAYOUT>(row, column / TB, R, C / TB, WORDS), TB - AT_ONCE - column % TB);
      const float scale = float(scales[row]);
      UNROLL
      for (int i = 0; i < AT_ONCE; ++i) {
        target[i] = T(refined_value(column_state(states, i)) * scale);
      }
    } else {
      UNROLL
      for (int i = 0; i < AT_ONCE; ++i) {
        target[i] = T(0.0f);
      }
    }
  }
}

// Adds the product of staged tiles to a simdgroup's TM x TN matrices, which lie M_STEP rows and N_STEP columns apart.
// `x_tile` and `w_tile` point at its first row and column; weights of adjacent outputs are N_STRIDE elements apart,
// those of adjacent inner values K_STRIDE.
template <int TM, int TN, int M_STEP, int N_STEP, int N_STRIDE, int K_STRIDE, typename T>
inline void multiply_tiles(thread simdgroup_float8x8* sums, const threadgroup T* x_tile, const threadgroup T* w_tile,
                           int lane) {
  constexpr int X_STRIDE = TILE_DEPTH + TILE_PAD;
  const int row = fragment_row(lane);
  const int column = fragment_column(lane);
  UNROLL
  for (int k = 0; k < TILE_DEPTH; k += 8) {
    simdgroup_float8x8 a[TM];
    UNROLL
    for (int m = 0; m < TM; ++m) {
      const int element = (M_STEP * m + row) * X_STRIDE + k + column;
      a[m].thread_elements()[0] = float(x_tile[element]);
      a[m].thread_elements()[1] = float(x_tile[element + 1]);
    }
    UNROLL
    for (int n = 0; n < TN; ++n) {
      const int element = (N_STEP * n + column) * N_STRIDE + (k + row) * K_STRIDE;
      simdgroup_float8x8 b;
      b.thread_elements()[0] = float(w_tile[element]);
      b.thread_elements()[1] = float(w_tile[element + N_STRIDE]);
      UNROLL
      for (int m = 0; m < TM; ++m) {
        simdgroup_multiply_accumulate(sums[TN * m + n], a[m], b, sums[TN * m + n]);
      }
    }
  }
}
