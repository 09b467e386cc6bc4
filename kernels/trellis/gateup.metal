// y = silu(x Wg^T) * (x Wu^T) for 1 to 4 rows of x and two matrices that are coded along their inputs, on ordinary lanes: one
// simdgroup for a row of both. Where DECODE is DECODE_FACTORED, integer codes are summed and each sum is scaled once.
//
// Template: T (x, y), S (scales), R rows of each matrix, C columns, TB weights a block, KG and KU bits a weight of gate and up, L state
// bits, SGS simdgroups a threadgroup, DECODE, ROWS rows of x for which a weight is decoded once, CHAINS 1 or 2 sums for each of
// them, TAIL. Grid (32 SGS, ceil(R / SGS), rows of x / ROWS), threadgroup (32 SGS, 1, 1).
//
// With two chains both sums are those of reduce.metal, bit for bit. ROWS changes no bit of a result.
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
float gate_sums[CHAINS * ROWS];
float up_sums[CHAINS * ROWS];
clear_sums<ROWS, CHAINS>(gate_sums);
clear_sums<ROWS, CHAINS>(up_sums);

if (holds_vectors(rows)) {
  add_gateup_runs<true, ROWS, CHAINS, C, TB, KG, KU, L, DECODE>(rows, gate_row, up_row, gate_scale, up_scale, table,
                                                                shared_table, lane, gate_sums, up_sums);
} else {
  add_gateup_runs<false, ROWS, CHAINS, C, TB, KG, KU, L, DECODE>(rows, gate_row, up_row, gate_scale, up_scale, table,
                                                                 shared_table, lane, gate_sums, up_sums);
}

UNROLL
for (int m = 0; m < ROWS; ++m) {
  const float gate = completed_sum<DECODE>(total_of_row<CHAINS>(gate_sums, m), gate_scale);
  const float up = completed_sum<DECODE>(total_of_row<CHAINS>(up_sums, m), up_scale);
  if (lane == 0) {
    y[size_t(first_row + m) * size_t(R) + size_t(row)] = swiglu<TAIL>(T(gate), T(up));
  }
}
