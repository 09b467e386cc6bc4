// partials[m, z, c] = sum over split z of y(r, c) (x[m, r] (scales[r] step)), for up to 8 rows of x on the 8x8 matrix unit.
//
// Template: T (x), S (scales), M rows of x, R rows and C columns of codes, K bits a weight, L state bits (at most 16), SPLITS, SG_TG
// simdgroups a threadgroup, LAYOUT 0 or 2, ST matrices a simdgroup. Blocks of 256. Grid (32 SG_TG, ceil(C / 256 (32 / ST) SPLITS
// / SG_TG), 1), threadgroup (32 SG_TG, 1, 1). down.h says who does what.
//
// Rows of x past M, and rows of codes past R, count as zeros.
const int lane = int(thread_index_in_simdgroup);
const int row = fragment_row(lane);
const int column = fragment_column(lane);
const int simdgroup = SG_TG * int(threadgroup_position_in_grid.y) + int(simdgroup_index_in_threadgroup);
if (simdgroup >= C / 256 * (32 / ST) * SPLITS) {
  return;  // A whole simdgroup; no barrier follows.
}
const DownShare share = down_share<R, C, ST, SPLITS>(simdgroup);
const int position = share.position + ST * column;

simdgroup_float8x8 sums[ST];
UNROLL
for (int s = 0; s < ST; ++s) {
  sums[s].thread_elements()[0] = 0.0f;
  sums[s].thread_elements()[1] = 0.0f;
}

for (int first = share.row; first < share.end; first += 8) {
  Windows<window_words(K, L, ST)> windows;
  const int code_row = min(first + row, R - 1);
  load_windows<K, ST>(codes + block_word<LAYOUT>(code_row, share.block, R, C / 256, 8 * K), position, windows);
  simdgroup_float8x8 a;
  UNROLL
  for (int c = 0; c < 2; ++c) {
    const int input = first + column + c;
    const bool live = row < M && input < share.end;
    a.thread_elements()[c] =
        live ? float(x[size_t(row) * size_t(R) + size_t(input)]) * (float(scales[input]) * code_step()) : 0.0f;
  }
  UNROLL
  for (int s = 0; s < ST; ++s) {
    simdgroup_float8x8 b;
    b.thread_elements()[0] = integer_code(state_in<K, L>(windows, s));
    b.thread_elements()[1] = integer_code(state_in<K, L>(windows, ST + s));
    simdgroup_multiply_accumulate(sums[s], a, b, sums[s]);
  }
}

if (row < M) {
  const size_t start = size_t(row * SPLITS + share.split) * size_t(C) + size_t(256 * share.block + 255 - position);
  UNROLL
  for (int s = 0; s < ST; ++s) {
    partials[start - size_t(s)] = sums[s].thread_elements()[0];
    partials[start - size_t(ST + s)] = sums[s].thread_elements()[1];
  }
}
