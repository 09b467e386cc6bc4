// y = silu(x Wg^T) * (x Wu^T) for 1 to 4 rows of x and two matrices that are coded along their inputs, on ordinary lanes: one
// simdgroup for a row of both.
//
// Template: T (x, y), S (scales), R rows of each matrix, C columns, TB weights a block, KG and KU bits a weight of gate and up, L state
// bits, SGS simdgroups a threadgroup, DECODE, ROWS rows of x for which a weight is decoded once, TAIL. Grid
// (32 SGS, ceil(R / SGS), rows of x / ROWS), threadgroup (32 SGS, 1, 1).
//
// Both sums are those of reduce.metal, bit for bit: lane l takes the runs l, l + 32, ... of the row.
threadgroup float shared_table[table_entries<DECODE, L>()];
fill_table<DECODE, L>(shared_table, table, uint(thread_index_in_threadgroup), uint(32 * SGS));

const int lane = int(thread_index_in_simdgroup);
const int row = SGS * int(threadgroup_position_in_grid.y) + int(simdgroup_index_in_threadgroup);
if (row >= R) {
  return;  // A whole simdgroup; no barrier follows.
}

const int first_row = ROWS * int(threadgroup_position_in_grid.z);
const device T* rows = x + size_t(first_row) * size_t(C);
const device uint* gate_row = gate_codes + size_t(row) * size_t(C / 32 * KG);
const device uint* up_row = up_codes + size_t(row) * size_t(C / 32 * KU);
const float gate_scale = float(gate_scales[row]);
const float up_scale = float(up_scales[row]);
float gate_sums[2 * ROWS];
float up_sums[2 * ROWS];
clear_sums<ROWS, 2>(gate_sums);
clear_sums<ROWS, 2>(up_sums);

for (int run = lane; run < C / 32; run += 32) {
  uint gate_words[KG + 1];
  uint up_words[KU + 1];
  load_run<KG, TB>(gate_row, run, gate_words);
  load_run<KU, TB>(up_row, run, up_words);
  UNROLL
  for (int j = 0; j < 32; j += 4) {
    float4 columns[ROWS];
    load_columns<ROWS, C>(rows + 32 * run + j, columns);
    UNROLL
    for (int e = 0; e < 4; ++e) {
      const uint gate_state = run_state<KG, L>(gate_words, j + e);
      const uint up_state = run_state<KU, L>(up_words, j + e);
      add_column<ROWS, 2>(decoded_weight<DECODE>(gate_state, gate_scale, table, shared_table), columns, e, gate_sums);
      add_column<ROWS, 2>(decoded_weight<DECODE>(up_state, up_scale, table, shared_table), columns, e, up_sums);
    }
  }
}

UNROLL
for (int m = 0; m < ROWS; ++m) {
  const float gate = total_of_row<2>(gate_sums, m);
  const float up = total_of_row<2>(up_sums, m);
  if (lane == 0) {
    y[size_t(first_row + m) * size_t(R) + size_t(row)] = swiglu<TAIL>(T(gate), T(up));
  }
}
