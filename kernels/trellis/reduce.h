// Adds the products of one lane's runs of a coded row with ROWS rows of x, C elements apart, into two sums for each of them:
// lane l takes runs l, l + 32, ... With VECTORS, x may be read by vectors.
template <bool VECTORS, int ROWS, int C, int TB, int K, int L, int DECODE, typename Pointer>
inline void add_runs(Pointer x, const device uint* codes, float scale, const device float* table,
                     const threadgroup float* shared_table, int lane, thread float* sums) {
  for (int run = lane; run < C / 32; run += 32) {
    uint words[K + 1];
    load_run<K, TB>(codes, run, words);
    UNROLL
    for (int j = 0; j < 32; j += 8) {
      float4 columns[2 * ROWS];
      load_columns<VECTORS, ROWS, C>(x + 32 * run + j, columns);
      UNROLL
      for (int e = 0; e < 8; ++e) {
        const float weight = decoded_weight<DECODE>(run_state<K, L>(words, j + e), scale, table, shared_table);
        add_column<ROWS, 2>(weight, columns, e, sums);
      }
    }
  }
}
