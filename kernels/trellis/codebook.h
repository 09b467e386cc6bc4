// The computed code "1MAD": a trellis state's integer code y, -510 .. 510, and the value y / 147.800537109375 that stands for.
//
// y is a sum of four bytes less 510. No step below has a multiplication followed by an addition outside an explicit fma, so
// that contraction cannot change a bit.

// `start` and the four bytes of `word`. Where no instruction adds bytes, even and odd ones are added as two 16-bit lanes, which
// never carry.
inline uint add_bytes(uint word, uint start) {
#if defined(__CUDACC__)
  return __dp4a(word, 0x01010101u, start);
#else
  const uint lanes = (word & 0x00FF00FFu) + ((word >> 8u) & 0x00FF00FFu);
  return start + (lanes & 0xFFFFu) + (lanes >> 16u);
#endif
}

// The word whose bytes add up to y + 510.
inline uint state_word(uint state) {
  return 34038481u * state + 76625530u;
}

// y as a float, exactly, with no integer conversion: 2^23 + y + 510 has y + 510 in its low mantissa bits.
inline float integer_code(uint state) {
  return as_type<float>(add_bytes(state_word(state), 0x4B000000u)) - 8389118.0f;
}

// The same by an integer conversion. Which of the two is faster is up to the GPU.
inline float converted_code(uint state) {
  return float(int(add_bytes(state_word(state), 0u)) - 510);
}

// The float nearest to 1 / 147.800537109375.
inline float code_step() {
  return as_type<float>(0x3BDDB447u);
}

// Ways to compute a value. The numbers are those of decode selections, of which some take values from a table instead.
#define DECODE_DIVIDE 0
#define DECODE_REFINED 1
#define DECODE_TABLE_SHARED 2
#define DECODE_TABLE_DEVICE 3
#define DECODE_NONE 4
#define DECODE_REFINED_FLOAT 5
#define DECODE_UNREFINED 6
// The values of 6, from converted integers and from tables in threadgroup memory, of values and of integer codes: no
// selection names these.
#define DECODE_CONVERTED 7
#define DECODE_TABLE_UNREFINED 8
#define DECODE_TABLE_CODES 9
// The integer code in place of the weight: scale times step multiplies the activation or the sum.
#define DECODE_FACTORED 10

// y / 147.800537109375 rounded once, by a division.
inline float divided_value(uint state) {
  return precise::divide(integer_code(state), 147.800537109375f);
}

// The same for every y, by one Newton step on the product with the reciprocal.
inline float refined_value(uint state) {
  const float y = integer_code(state);
  const float quotient = y * code_step();
  const float remainder = fma(-quotient, 147.800537109375f, y);
  return fma(remainder, code_step(), quotient);
}

// The product with the reciprocal alone: one unit in the last place off for 398 of the 1021 codes.
inline float unrefined_value(uint state) {
  return integer_code(state) * code_step();
}

// A finite float32 rounded to bfloat16, to nearest even, and widened again.
inline float round_to_bfloat(float value) {
  const uint bits = as_type<uint>(value);
  return as_type<float>((bits + 0x7FFFu + ((bits >> 16u) & 1u)) & 0xFFFF0000u);
}
