// out[r, c] = T(value(r, c) scale[r]): the stored matrix, one thread an element.
//
// Template: T (out), S (scales), R rows, C columns, TB weights a block, K bits a weight, L state bits, DECODE 0 (division), 1
// (refined) or 3 (table; all three give the same values), LAYOUT 0 or 2. Grid (256 R, ceil(C / 256), 1), threadgroup (256, 1, 1): rows lie
// along x, where a grid may be longest.
const int column = 256 * int(threadgroup_position_in_grid.y) + int(thread_position_in_threadgroup.x);
const int row = int(threadgroup_position_in_grid.x);
if (column >= C) {
  return;
}

constexpr int WORDS = TB * K / 32;
const device uint* block = codes + block_word<LAYOUT>(row, column / TB, R, C / TB, WORDS);
const uint state = state_at<K, L, WORDS>(block, TB - 1 - column % TB);
float value;
if (DECODE == DECODE_TABLE_DEVICE) {
  value = table[state];
} else if (DECODE == DECODE_REFINED) {
  value = refined_value(state);
} else {
  value = divided_value(state);
}
out[size_t(row) * size_t(C) + size_t(column)] = T(value * float(scales[row]));
