// partials[z, m, c] = sum over the stored rows r of part z of x[m, r] W[r, c], for codes that run along the outputs;
// tiles of 8 x 32 results.
//
// Template: T (x), S (scales), R inputs, C outputs, TB weights a block, K bits a weight, L state bits, LAYOUT 0 or 2,
// SPLITS parts of PARTITION rows, a multiple of 16; the last part goes on to R. There are at most 8 rows of x, as its
// shape says.
// Grid (128 ceil(C / 32), 1, SPLITS), threadgroup (128, 1, 1). The four simdgroups have an 8x8 matrix each.
constexpr int BN = 32;
constexpr int STRIDE = BN + TILE_PAD;
threadgroup T x_tile[8 * (TILE_DEPTH + TILE_PAD)];
threadgroup T w_tile[TILE_DEPTH * (BN + TILE_PAD)];

const int thread_index = int(thread_index_in_threadgroup);
const int lane = int(thread_index_in_simdgroup);
const int own_output = 8 * int(simdgroup_index_in_threadgroup);
const int first_output = BN * int(threadgroup_position_in_grid.x);
const int part = int(threadgroup_position_in_grid.z);
const int rows = x_shape[0];

simdgroup_float8x8 sum;
sum.thread_elements()[0] = 0.0f;
sum.thread_elements()[1] = 0.0f;

const int end = part == SPLITS - 1 ? R : (part + 1) * PARTITION;
for (int k = part * PARTITION; k < end; k += TILE_DEPTH) {
  stage_activations<8>(x_tile, x, 0, rows, k, R, thread_index);
  stage_weights<TILE_DEPTH, BN, 4, R, C, TB, K, L, LAYOUT>(w_tile, codes, scales, k, first_output, thread_index);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  multiply_tiles<1, 1, 8, 8, 1, STRIDE>(&sum, x_tile, w_tile + own_output, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

const int row = fragment_row(lane);
const int output = first_output + own_output + fragment_column(lane);
const size_t start = (size_t(part) * size_t(rows) + size_t(row)) * size_t(C);
UNROLL
for (int c = 0; c < 2; ++c) {
  if (row < rows && output + c < C) {
    partials[start + size_t(output + c)] = sum.thread_elements()[c];
  }
}
