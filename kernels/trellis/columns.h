// N adjacent columns of a block, read at once and decoded one by one.
//
// Columns t .. t + N - 1 of a block of TB have stream positions u + N - 1 down to u, u = TB - N - t, so their states
// lie in one stretch of the stream that starts at bit u K with the last column's. Where N divides TB and t, hence u, the
// first bit's place in its word is a multiple of N K modulo 32.

// The stretch, shifted down so that it starts at the first bit.
template <int N, int K, int L>
struct ColumnStates {
  uint words[((N - 1) * K + L + 31) / 32];
};

// The last place in a word that multiples of `bits` come to.
constexpr int last_offset(int bits) {
  return (bits & -bits & 31) == 0 ? 0 : 32 - (bits & -bits & 31);
}

// Reads the stretch at stream position u of a block of WORDS words. `block` may point to device or to constant memory.
// LAST_OFFSET is the last place in a word at which the stretches of all lanes start.
template <int N, int K, int L, int WORDS, int LAST_OFFSET = last_offset(N * K), typename Pointer>
inline ColumnStates<N, K, L> load_column_states(Pointer block, int u) {
  constexpr int BITS = (N - 1) * K + L;
  constexpr int ALIGNED = (BITS + 31) / 32;
  constexpr int READ = (LAST_OFFSET + BITS + 31) / 32;
  static_assert(READ <= WORDS + 1, "a stretch meets no word of its block three times");
  const int word = u * K / 32;
  const int offset = u * K % 32;
  uint read[ALIGNED + 1];
  UNROLL
  for (int i = 0; i < ALIGNED + 1; ++i) {
    const int index = word + i;
    read[i] = i < READ ? block[index < WORDS ? index : index - WORDS] : 0u;
  }
  ColumnStates<N, K, L> states;
  UNROLL
  for (int i = 0; i < ALIGNED; ++i) {
    states.words[i] = LAST_OFFSET == 0 ? read[i] : aligned_word(read[i], read[i + 1], offset);
  }
  return states;
}

// The state of column t + i.
template <int N, int K, int L>
inline uint column_state(const thread ColumnStates<N, K, L>& states, int i) {
  const int bit = (N - 1 - i) * K;
  const uint low = states.words[bit / 32];
  const uint high = bit % 32 + L > 32 ? states.words[bit / 32 + 1] : 0u;
  return window<L>(low, high, bit % 32);
}

// Four columns as products see them: value times scale, rounded to T and widened.
template <typename T, int K, int L, int WORDS, typename Pointer>
inline float4 rounded_columns(Pointer block, int u, float scale) {
  const ColumnStates<4, K, L> states = load_column_states<4, K, L, WORDS>(block, u);
  float4 weights;
  UNROLL
  for (int i = 0; i < 4; ++i) {
    weights[i] = float(T(refined_value(column_state(states, i)) * scale));
  }
  return weights;
}
