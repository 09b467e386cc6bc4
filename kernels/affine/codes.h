// Unsigned BITS-bit codes out of MLX's little-endian bit stream.
//
// A row of codes is one stream: code k takes bits k*BITS .. k*BITS + BITS - 1, least significant first, stream bit p
// being bit p % 32 of word p / 32. Thirty-two codes from a multiple of 32 fill exactly BITS words, so `words` below
// holds whole words and `j` counts from the first of them. Call these with a `j` that is constant once loops are
// unrolled: shifts and masks then fold, and `words` stays in registers.

// Code j, shifted left by SHIFT; every other bit is zero. BITS + SHIFT is at most 32.
template <int BITS, int SHIFT>
inline uint shifted_code(const thread uint* words, int j) {
  const int bit = j * BITS;
  const int word = bit / 32;
  const int offset = bit % 32;
  uint code = offset > SHIFT ? words[word] >> uint(offset - SHIFT) : words[word] << uint(SHIFT - offset);
  if (offset + BITS > 32) {
    code |= words[word + 1] << uint(32 - offset + SHIFT);
  }
  return code & (((1u << uint(BITS)) - 1u) << uint(SHIFT));
}

// Code j as a float, exactly, with no integer conversion: 2^23 + q has q in its low mantissa bits.
template <int BITS>
inline float integer_code(const thread uint* words, int j) {
  return as_type<float>(0x4B000000u | shifted_code<BITS, 0>(words, j)) - 8388608.0f;
}

// 1 + q / 2^BITS for code j, exactly: q is placed in the top mantissa bits of 1.0.
template <int BITS>
inline float fraction_code(const thread uint* words, int j) {
  return as_type<float>(0x3F800000u | shifted_code<BITS, 23 - BITS>(words, j));
}

// The words of one whole column: codes k .. k + 31 of a row, for k a multiple of 32.
template <int BITS>
inline void load_column_words(const device uint* row_words, int k, thread uint* words) {
  const device uint* source = row_words + (k / 32) * BITS;
  UNROLL
  for (int i = 0; i < BITS; ++i) {
    words[i] = source[i];
  }
}

// The (BITS + 1) / 2 words of half a column: codes k .. k + 15 of a row, for k a multiple of 16. Odd widths start such
// a half in the middle of a word, so they are read as 16-bit pieces; the upper half of their last word is zero.
template <int BITS>
inline void load_half_column_words(const device uint* row_words, int k, thread uint* words) {
  if (BITS % 2 == 0) {
    const device uint* source = row_words + (k / 16) * (BITS / 2);
    UNROLL
    for (int i = 0; i < BITS / 2; ++i) {
      words[i] = source[i];
    }
  } else {
    const device ushort* source = reinterpret_cast<const device ushort*>(row_words) + (k / 16) * BITS;
    UNROLL
    for (int i = 0; i < (BITS + 1) / 2; ++i) {
      const uint low = uint(source[2 * i]);
      const uint high = 2 * i + 1 < BITS ? uint(source[2 * i + 1]) : 0u;
      words[i] = low | (high << 16u);
    }
  }
}
