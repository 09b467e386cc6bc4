// y = silu(x Wg^T) * (x Wu^T) as in gateup.metal, the integer codes being summed and each sum scaled once.
//
// Template: T (x, y), S (scales), R rows of each matrix, C columns, TB weights a block, KG and KU bits a weight of gate and up, L state
// bits, SGS simdgroups a threadgroup, ROWS rows of x, CHAINS 1 or 2 sums for each, TAIL. Grid (32 SGS, ceil(R / SGS), 1),
// threadgroup (32 SGS, 1, 1).
const int lane = int(thread_index_in_simdgroup);
const int row = SGS * int(threadgroup_position_in_grid.y) + int(simdgroup_index_in_threadgroup);
if (row >= R) {
  return;  // A whole simdgroup; no barrier follows.
}

const device uint* gate_row = gate_codes + size_t(row) * size_t(C / 32 * KG);
const device uint* up_row = up_codes + size_t(row) * size_t(C / 32 * KU);
float gate_sums[CHAINS * ROWS];
float up_sums[CHAINS * ROWS];
clear_sums<ROWS, CHAINS>(gate_sums);
clear_sums<ROWS, CHAINS>(up_sums);

for (int run = lane; run < C / 32; run += 32) {
  uint gate_words[KG + 1];
  uint up_words[KU + 1];
  load_run<KG, TB>(gate_row, run, gate_words);
  load_run<KU, TB>(up_row, run, up_words);
  UNROLL
  for (int j = 0; j < 32; j += 4) {
    float4 columns[ROWS];
    load_columns<ROWS, C>(x + 32 * run + j, columns);
    UNROLL
    for (int e = 0; e < 4; ++e) {
      add_column<ROWS, CHAINS>(integer_code(run_state<KG, L>(gate_words, j + e)), columns, e, gate_sums);
      add_column<ROWS, CHAINS>(integer_code(run_state<KU, L>(up_words, j + e)), columns, e, up_sums);
    }
  }
}

const float gate_scale = float(gate_scales[row]) * code_step();
const float up_scale = float(up_scales[row]) * code_step();
UNROLL
for (int m = 0; m < ROWS; ++m) {
  const float gate = total_of_row<CHAINS>(gate_sums, m) * gate_scale;
  const float up = total_of_row<CHAINS>(up_sums, m) * up_scale;
  if (lane == 0) {
    y[size_t(m) * size_t(R) + size_t(row)] = swiglu<TAIL>(T(gate), T(up));
  }
}
