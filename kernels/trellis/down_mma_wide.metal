// As down_mma.metal, with the same bits, for any number of rows of x: read from x's shape, so that one pipeline serves all of them.
//
// Template: T (x), S (scales), R rows and C columns of codes, K bits a weight, L state bits (at most 12), SPLITS, SG_TG simdgroups a
// threadgroup, LAYOUT 0 or 2, ST matrices a simdgroup, MT blocks of 8 rows of x that share each decoded matrix. Blocks of 256,
// R a multiple of 8. Grid (32 SG_TG, ceil(C / 256 (32 / ST) SPLITS / SG_TG), ceil(M / (8 MT))), threadgroup (32 SG_TG, 1, 1).
//
// Codes are looked up: integers of at most 510 are exact in half precision. Rows past the end repeat the last row, and their
// results are not stored: a block costs the same however many rows it has, and the loop needs no test for them.
threadgroup half code_table[1 << L];
for (int state = int(thread_index_in_threadgroup); state < 1 << L; state += 32 * SG_TG) {
  code_table[state] = half(integer_code(uint(state)));
}
threadgroup_barrier(mem_flags::mem_threadgroup);

const int lane = int(thread_index_in_simdgroup);
const int row = fragment_row(lane);
const int column = fragment_column(lane);
const int simdgroup = SG_TG * int(threadgroup_position_in_grid.y) + int(simdgroup_index_in_threadgroup);
if (simdgroup >= C / 256 * (32 / ST) * SPLITS) {
  return;  // A whole simdgroup; no barrier follows.
}
const DownShare share = down_share<R, C, ST, SPLITS>(simdgroup);
const int position = share.position + ST * column;
const int rows = x_shape[0];
const int first_row = 8 * MT * int(threadgroup_position_in_grid.z) + row;

simdgroup_float8x8 sums[MT][ST];
UNROLL
for (int block = 0; block < MT; ++block) {
  UNROLL
  for (int s = 0; s < ST; ++s) {
    sums[block][s].thread_elements()[0] = 0.0f;
    sums[block][s].thread_elements()[1] = 0.0f;
  }
}

for (int first = share.row; first < share.end; first += 8) {
  Windows<window_words(K, L, ST)> windows;
  load_windows<K, ST>(codes + block_word<LAYOUT>(first + row, share.block, R, C / 256, 8 * K), position, windows);
  const float factor0 = float(scales[first + column]) * code_step();
  const float factor1 = float(scales[first + column + 1]) * code_step();
  simdgroup_float8x8 a[MT];
  UNROLL
  for (int block = 0; block < MT; ++block) {
    const size_t m = size_t(min(first_row + 8 * block, rows - 1));
    const device T* inputs = x + m * size_t(R) + size_t(first + column);
    a[block].thread_elements()[0] = float(inputs[0]) * factor0;
    a[block].thread_elements()[1] = float(inputs[1]) * factor1;
  }
  UNROLL
  for (int s = 0; s < ST; ++s) {
    simdgroup_half8x8 b;
    b.thread_elements()[0] = code_table[state_in<K, L>(windows, s)];
    b.thread_elements()[1] = code_table[state_in<K, L>(windows, ST + s)];
    UNROLL
    for (int block = 0; block < MT; ++block) {
      simdgroup_multiply_accumulate(sums[block][s], a[block], b, sums[block][s]);
    }
  }
}

UNROLL
for (int block = 0; block < MT; ++block) {
  const int m = first_row + 8 * block;
  if (m < rows) {
    const size_t start = (size_t(m) * size_t(SPLITS) + size_t(share.split)) * size_t(C) +
                         size_t(256 * share.block + 255 - position);
    UNROLL
    for (int s = 0; s < ST; ++s) {
      partials[start - size_t(s)] = sums[block][s].thread_elements()[0];
      partials[start - size_t(ST + s)] = sums[block][s].thread_elements()[1];
    }
  }
}
