// Adds the products of one lane's runs of gate's and up's coded rows with ROWS rows of x, C elements apart, into CHAINS sums for
// each: lane l takes runs l, l + 32, ... With VECTORS, x may be read by vectors.
template <bool VECTORS, int ROWS, int CHAINS, int C, int TB, int KG, int KU, int L, int DECODE, typename Pointer>
inline void add_gateup_runs(Pointer x, const device uint* gate_codes, const device uint* up_codes, float gate_scale,
                            float up_scale, const device float* table, const threadgroup float* shared_table, int lane,
                            thread float* gate_sums, thread float* up_sums) {
  for (int run = lane; run < C / 32; run += 32) {
    uint gate_words[KG + 1];
    uint up_words[KU + 1];
    load_run<KG, TB>(gate_codes, run, gate_words);
    load_run<KU, TB>(up_codes, run, up_words);
    UNROLL
    for (int j = 0; j < 32; j += 8) {
      float4 columns[2 * ROWS];
      load_columns<VECTORS, ROWS, C>(x + 32 * run + j, columns);
      UNROLL
      for (int e = 0; e < 8; ++e) {
        const uint gate_state = run_state<KG, L>(gate_words, j + e);
        const uint up_state = run_state<KU, L>(up_words, j + e);
        const float gate = decoded_weight<DECODE>(gate_state, gate_scale, table, shared_table);
        const float up = decoded_weight<DECODE>(up_state, up_scale, table, shared_table);
        add_column<ROWS, CHAINS>(gate, columns, e, gate_sums);
        add_column<ROWS, CHAINS>(up, columns, e, up_sums);
      }
    }
  }
}
