// How the matrix kernels lay a product over the lanes of a simdgroup.
//
// K is walked in steps of 256. Inside the step at `base` there are 32 matrix multiplications s, and position t of
// multiplication s stands for k = base + 32 t + s. So one *column* t of the weight matrices, over a whole step, is 32
// consecutive weights of one output; a lane holds two adjacent columns, 64 consecutive weights. Likewise one position
// of the activation matrices, over a step, is 32 consecutive values of a row of x.

// A lane's two columns of weights in one step, still packed.
template <int BITS>
struct WeightColumns {
  uint words[2][BITS];
  float scale[2];
  float bias[2];
};

// Loads the columns at k and k + 32 of one output, for k a multiple of 64. A column at or past K is not read: its codes,
// scale and bias are zero, and so are the weights that both decoders below make of it.
template <int BITS, int GROUP, int K, typename S>
inline WeightColumns<BITS> load_columns(const device uint* w, const device S* scales, const device S* biases,
                                        int output, int k) {
  const device uint* row_words = w + size_t(output) * size_t(K / 32 * BITS);
  const size_t row_group = size_t(output) * size_t(K / GROUP);
  WeightColumns<BITS> columns;
  UNROLL
  for (int c = 0; c < 2; ++c) {
    const int column_k = k + 32 * c;
    if (K % 256 == 0 || column_k < K) {
      load_column_words<BITS>(row_words, column_k, columns.words[c]);
      if (c == 1 && GROUP > 32) {
        // Both columns lie in one group of 64 or 128.
        columns.scale[1] = columns.scale[0];
        columns.bias[1] = columns.bias[0];
      } else {
        columns.scale[c] = float(scales[row_group + size_t(column_k / GROUP)]);
        columns.bias[c] = float(biases[row_group + size_t(column_k / GROUP)]);
      }
    } else {
      UNROLL
      for (int i = 0; i < BITS; ++i) {
        columns.words[c][i] = 0u;
      }
      columns.scale[c] = 0.0f;
      columns.bias[c] = 0.0f;
    }
  }
  return columns;
}

// Weight s of column c as fl(scale * q + bias), rounded once.
template <int BITS>
inline float rounded_weight(const thread WeightColumns<BITS>& columns, int c, int s) {
  return fma(columns.scale[c], integer_code<BITS>(columns.words[c], s), columns.bias[c]);
}

// Restates scale and bias for fraction_weight: with v = 1 + q / 2^BITS, scale * q + bias is v * scale' + bias'.
template <int BITS>
inline void to_fraction_form(thread WeightColumns<BITS>& columns) {
  UNROLL
  for (int c = 0; c < 2; ++c) {
    columns.scale[c] *= float(1 << BITS);
    columns.bias[c] -= columns.scale[c];
  }
}

// Weight s of column c after to_fraction_form: a shift, a mask and one fma.
template <int BITS>
inline float fraction_weight(const thread WeightColumns<BITS>& columns, int c, int s) {
  return fma(fraction_code<BITS>(columns.words[c], s), columns.scale[c], columns.bias[c]);
}
