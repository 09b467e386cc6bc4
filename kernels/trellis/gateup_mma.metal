// y = silu(x Wg^T) * (x Wu^T) for any number of rows of x on the 8x8 matrix unit, both codes running along the inputs: integer codes
// are summed, and each sum is scaled once.
//
// Template: T (x, y), S (scales), R rows of each matrix, C columns, TB weights a block, KG and KU bits a weight of gate and up, L state
// bits, SG_TG simdgroups a threadgroup, MT blocks of 8 rows of x that share each decoded weight. The number of rows is read from
// x's shape. Grid (32 SG_TG, ceil(R / (8 SG_TG)), ceil(M / (8 MT))), threadgroup (32 SG_TG, 1, 1). R is a multiple of 8, C of 256.
//
// One simdgroup owns 8 rows of both matrices. C is walked in steps of 256: inside the step at `base` there are 32 multiplications,
// and position t of multiplication s stands for column base + 32 t + s. So a lane decodes the whole runs of its two fragment
// columns. A holds codes (rows of W by positions), B activations (positions by rows of x). Rows of x past the end repeat the
// last one, and their results are not stored.
const int lane = int(thread_index_in_simdgroup);
const int row = fragment_row(lane);
const int column = fragment_column(lane);
const int output = 8 * (SG_TG * int(threadgroup_position_in_grid.y) + int(simdgroup_index_in_threadgroup)) + row;
if (output - row >= R) {
  return;  // A whole simdgroup; no barrier follows.
}
const int rows = x_shape[0];
const int first_row = 8 * MT * int(threadgroup_position_in_grid.z) + column;
const device uint* gate_row = gate_codes + size_t(output) * size_t(C / 32 * KG);
const device uint* up_row = up_codes + size_t(output) * size_t(C / 32 * KU);

simdgroup_float8x8 gate_sums[MT];
simdgroup_float8x8 up_sums[MT];
UNROLL
for (int block = 0; block < MT; ++block) {
  UNROLL
  for (int c = 0; c < 2; ++c) {
    gate_sums[block].thread_elements()[c] = 0.0f;
    up_sums[block].thread_elements()[c] = 0.0f;
  }
}

for (int base = 0; base < C; base += 256) {
  uint gate_words[2][KG + 1];
  uint up_words[2][KU + 1];
  UNROLL
  for (int c = 0; c < 2; ++c) {
    load_run<KG, TB>(gate_row, base / 32 + column + c, gate_words[c]);
    load_run<KU, TB>(up_row, base / 32 + column + c, up_words[c]);
  }
  UNROLL
  for (int v = 0; v < 8; ++v) {
    float4 values[MT][2];
    UNROLL
    for (int block = 0; block < MT; ++block) {
      UNROLL
      for (int c = 0; c < 2; ++c) {
        const int m = min(first_row + 8 * block + c, rows - 1);
        values[block][c] = load4(x + size_t(m) * size_t(C) + size_t(base + 32 * row + 4 * v));
      }
    }
    UNROLL
    for (int e = 0; e < 4; ++e) {
      simdgroup_float8x8 gate;
      simdgroup_float8x8 up;
      UNROLL
      for (int c = 0; c < 2; ++c) {
        gate.thread_elements()[c] = integer_code(run_state<KG, L>(gate_words[c], 4 * v + e));
        up.thread_elements()[c] = integer_code(run_state<KU, L>(up_words[c], 4 * v + e));
      }
      UNROLL
      for (int block = 0; block < MT; ++block) {
        simdgroup_float8x8 b;
        b.thread_elements()[0] = values[block][0][e];
        b.thread_elements()[1] = values[block][1][e];
        simdgroup_multiply_accumulate(gate_sums[block], gate, b, gate_sums[block]);
        simdgroup_multiply_accumulate(up_sums[block], up, b, up_sums[block]);
      }
    }
  }
}

const float gate_scale = float(gate_scales[output]) * code_step();
const float up_scale = float(up_scales[output]) * code_step();
UNROLL
for (int block = 0; block < MT; ++block) {
  UNROLL
  for (int c = 0; c < 2; ++c) {
    const int m = first_row + 8 * block + c;
    if (m < rows) {
      const T gate = T(gate_sums[block].thread_elements()[c] * gate_scale);
      const T up = T(up_sums[block].thread_elements()[c] * up_scale);
      y[size_t(m) * size_t(R) + size_t(output)] = float_swiglu(gate, up);
    }
  }
}
