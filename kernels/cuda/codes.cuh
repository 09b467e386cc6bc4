// The codes that one lane owns of a group, and their pairs.
//
// Lane t of a quad owns COUNT = GROUP / 4 consecutive codes from bit COUNT BITS t of the group on. They are loaded as whole words and
// shifted down, so that code j starts at bit j BITS.
template <int BITS, int COUNT>
struct LaneCodes {
  static constexpr int SPAN = COUNT * BITS;
  static constexpr bool ALIGNED = SPAN % 32 == 0;
  static constexpr int WORDS = (SPAN + 31) / 32;
  // Offsets are multiples of the largest power of two in SPAN.
  static constexpr int STEP = (SPAN & -SPAN) < 32 ? (SPAN & -SPAN) : 32;
  static constexpr int LOADED = (32 - STEP + SPAN + 31) / 32;

  // Distance of the two codes of a pair: 16 bits apart where a word holds whole codes, so that one mask serves both.
  static constexpr int DISTANCE = 16 % BITS == 0 && 32 / BITS <= COUNT ? 16 / BITS : 1;

  alignas(16) unsigned words[LOADED];

  // From the group's first word, in shared memory where rows start at multiples of 16 bytes. A word past the lane's codes may
  // be read; what is in it does not matter.
  __device__ void load_shared(const unsigned* group, int t) {
    if (ALIGNED && WORDS % 4 == 0) {
#pragma unroll
      for (int i = 0; i < WORDS / 4; ++i) {
        reinterpret_cast<uint4*>(words)[i] = reinterpret_cast<const uint4*>(group + t * WORDS)[i];
      }
    } else if (ALIGNED && WORDS % 2 == 0) {
#pragma unroll
      for (int i = 0; i < WORDS / 2; ++i) {
        reinterpret_cast<uint2*>(words)[i] = reinterpret_cast<const uint2*>(group + t * WORDS)[i];
      }
    } else {
      const int first = t * SPAN / 32;
#pragma unroll
      for (int i = 0; i < LOADED; ++i) {
        words[i] = group[first + i];
      }
    }
  }

  __device__ void align(int t) {
    if (!ALIGNED) {
      const unsigned offset = unsigned(t * SPAN) % 32u;
#pragma unroll
      for (int i = 0; i < WORDS; ++i) {
        words[i] = __funnelshift_r(words[i], i + 1 < LOADED ? words[i + 1] : 0u, offset);
      }
    }
  }

  // The first code of pair p.
  static __device__ constexpr int first(int p) {
    return p / DISTANCE * 2 * DISTANCE + p % DISTANCE;
  }

  // The two codes of pair p, each in the lower bits of its half of a register.
  __device__ unsigned pair(int p) const {
    constexpr unsigned MASK = (1u << BITS) - 1u;
    if (DISTANCE > 1) {
      const int bit = first(p) * BITS;
      return (words[bit / 32] >> (bit % 32)) & (MASK | MASK << 16);
    }
    return code(first(p), 0) | code(first(p) + 1, 16);
  }

  // The activations that go with pair p, from those that go with the lane's codes in order, two a register.
  static __device__ unsigned matching(const unsigned* values, int p) {
    const int j = first(p);
    const int other = j + DISTANCE;
    if (DISTANCE == 1) {
      return values[j / 2];
    }
    return __byte_perm(values[j / 2], values[other / 2], (j % 2 == 0 ? 0x10 : 0x32) | (other % 2 == 0 ? 0x5400 : 0x7600));
  }

 private:
  // Code j moved to bit `place`.
  __device__ unsigned code(int j, int place) const {
    constexpr unsigned MASK = (1u << BITS) - 1u;
    const int bit = j * BITS;
    const int offset = bit % 32;
    unsigned found;
    if (offset + BITS > 32) {
      found = __funnelshift_r(words[bit / 32], words[bit / 32 + 1 < WORDS ? bit / 32 + 1 : bit / 32], offset) << place;
    } else {
      found = offset >= place ? words[bit / 32] >> (offset - place) : words[bit / 32] << (place - offset);
    }
    return found & (MASK << place);
  }
};
