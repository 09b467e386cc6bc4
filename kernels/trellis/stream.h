// Where codes lie and how states are read from them.
//
// A block of T weights is T K / 32 words, bit i being bit i % 32 of word i / 32. Time runs backwards: the weight at position t has
// stream position u = T - 1 - t, and its state is the L bits from bit u K on, modulo the block. So a state lies in one word or in
// two that follow each other, the first following the last.

// Index of the first word of a block. Layout 0 has rows of blocks; layout 2 has, for each pair of blocks, the rows one after
// another: [blocks / 2, rows, 2 words].
template <int LAYOUT>
inline size_t block_word(int row, int block, int rows, int blocks, int words) {
  if (LAYOUT == 2) {
    const size_t pair = size_t(block / 2) * size_t(rows) + size_t(row);
    return pair * size_t(2 * words) + size_t((block % 2) * words);
  }
  return (size_t(row) * size_t(blocks) + size_t(block)) * size_t(words);
}

// Words from one row of a block to the next.
template <int LAYOUT>
constexpr int row_words(int blocks, int words) {
  return LAYOUT == 2 ? 2 * words : blocks * words;
}

// The L bits from bit `offset` of `low` on, the rest of them from `high`. offset is 0 .. 31.
template <int L>
inline uint window(uint low, uint high, int offset) {
  uint bits = low >> uint(offset);
  if (offset + L > 32) {
    bits |= high << uint(32 - offset);
  }
  return bits & ((1u << uint(L)) - 1u);
}

// The state at stream position u of a block of WORDS words that starts at `block`.
template <int K, int L, int WORDS>
inline uint state_at(const device uint* block, int u) {
  const int bit = u * K;
  const int word = bit / 32;
  const int next = word + 1 == WORDS ? 0 : word + 1;
  return window<L>(block[word], block[next], bit % 32);
}

// 32 bits from bit `offset` of `low` on, the rest of them from `high`. offset is 0 .. 31.
inline uint aligned_word(uint low, uint high, int offset) {
#if defined(__CUDACC__)
  return __funnelshift_r(low, high, uint(offset));
#else
  return offset == 0 ? low : (low >> uint(offset)) | (high << uint(32 - offset));
#endif
}
