// Products of weights with rows of activations, eight columns at a time.
//
// CHAINS sums a row: column j of a run is added to sum j % CHAINS, columns and runs ascending, each product by a fused multiply-add.
// Two chains halve the latency of a lane's sum. The order makes bits, so kernels that promise each other's bits share these.

// Eight columns of ROWS rows of x, C elements apart, from `source` on: four of each row, then the other four. C is a multiple of 8, so
// all rows lie like the first.
template <bool VECTORS, int ROWS, int C, typename Pointer>
inline void load_columns(Pointer source, thread float4* columns) {
  UNROLL
  for (int m = 0; m < ROWS; ++m) {
    load8<VECTORS>(source + size_t(m) * size_t(C), columns[m], columns[ROWS + m]);
  }
}

template <int ROWS, int CHAINS>
inline void clear_sums(thread float* sums) {
  UNROLL
  for (int i = 0; i < CHAINS * ROWS; ++i) {
    sums[i] = 0.0f;
  }
}

// Adds one column's products: the e-th of eight.
template <int ROWS, int CHAINS>
inline void add_column(float weight, const thread float4* columns, int e, thread float* sums) {
  UNROLL
  for (int m = 0; m < ROWS; ++m) {
    const int chain = CHAINS * m + e % CHAINS;
    sums[chain] = fma(weight, columns[e / 4 * ROWS + m][e % 4], sums[chain]);
  }
}

// Row m's sum over all lanes of the simdgroup.
template <int CHAINS>
inline float total_of_row(const thread float* sums, int m) {
  return simd_sum(CHAINS == 1 ? sums[m] : sums[2 * m] + sums[2 * m + 1]);
}
