// y = x W^T for 1 to 4 rows of x and a W that is coded along its inputs, on ordinary lanes: one simdgroup for a row of W.
//
// Template: T (x, y), S (scales), R rows of W, C columns, TB weights a block, K bits a weight, L state bits, SGS simdgroups a
// threadgroup, DECODE, ROWS rows of x for which a weight is decoded once. Grid (32 SGS, ceil(R / SGS), rows of x / ROWS),
// threadgroup (32 SGS, 1, 1).
//
// ROWS changes no bit of a result.
threadgroup float shared_table[table_entries<DECODE, L>()];
fill_table<DECODE, L>(shared_table, table, uint(thread_index_in_threadgroup), uint(32 * SGS));

const int lane = int(thread_index_in_simdgroup);
const int row = SGS * int(threadgroup_position_in_grid.y) + int(simdgroup_index_in_threadgroup);
if (row >= R) {
  return;  // A whole simdgroup; no barrier follows.
}

const int first_row = ROWS * int(threadgroup_position_in_grid.z);
const device T* rows = x + size_t(first_row) * size_t(C);
const device uint* row_codes = codes + size_t(row) * size_t(C / 32 * K);
const float scale = float(scales[row]);
float sums[2 * ROWS];
clear_sums<ROWS, 2>(sums);

if (holds_vectors(rows)) {
  add_runs<true, ROWS, C, TB, K, L, DECODE>(rows, row_codes, scale, table, shared_table, lane, sums);
} else {
  add_runs<false, ROWS, C, TB, K, L, DECODE>(rows, row_codes, scale, table, shared_table, lane, sums);
}

UNROLL
for (int m = 0; m < ROWS; ++m) {
  const float total = total_of_row<2>(sums, m);
  if (lane == 0) {
    y[size_t(first_row + m) * size_t(R) + size_t(row)] = T(total);
  }
}
