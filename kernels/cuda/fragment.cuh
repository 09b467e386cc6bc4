// Tensor-core products of 16 outputs by 8 rows of x, and how a group of weights is laid over the lanes of a warp.
//
// mma.m16n8k16: with lane = 4 g + t, A (outputs by k) is held at outputs g and g + 8, k = 2 t, 2 t + 1, 2 t + 8, 2 t + 9; B (k by rows) at
// the same k of row g; C at outputs g and g + 8, rows 2 t and 2 t + 1. A sum over k does not care for the order of its terms, so
// the 16 positions of k stand for any 16 weights, as long as A and B agree: here lane t's four are four of the GROUP / 4
// consecutive weights of a group that it owns. So each multiplication stays inside one group.

struct Accumulator {
  float value[4];
};

template <typename T>
struct Pairs;

// Two values of T in one register, and the exact integers 0 .. 255 among them.
template <>
struct Pairs<__nv_bfloat16> {
  // 128 + q has q in its seven mantissa bits; an eighth bit is added afterwards.
  static constexpr unsigned MAGIC = 0x43004300u;
  static constexpr unsigned ONES = 0x3F803F80u;
  template <int BITS>
  static __device__ unsigned integers(unsigned codes) {
    const unsigned low = (codes & 0x007F007Fu) | MAGIC;
    unsigned offset = MAGIC;
    if (BITS == 8) {
      // Where bit 7 is set, 128 stays.
      offset -= ((codes >> 7) & 0x00010001u) * 0x4300u;
    }
    unsigned difference;
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(difference) : "r"(low), "r"(offset));
    return difference;
  }
  static __device__ void multiply_add(Accumulator& c, const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.value[0]), "+f"(c.value[1]), "+f"(c.value[2]), "+f"(c.value[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

template <>
struct Pairs<__half> {
  // 1024 + q has q in its ten mantissa bits.
  static constexpr unsigned MAGIC = 0x64006400u;
  static constexpr unsigned ONES = 0x3C003C00u;
  template <int BITS>
  static __device__ unsigned integers(unsigned codes) {
    unsigned difference;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(codes | MAGIC), "r"(MAGIC));
    return difference;
  }
  static __device__ void multiply_add(Accumulator& c, const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.value[0]), "+f"(c.value[1]), "+f"(c.value[2]), "+f"(c.value[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

// COUNT consecutive 16-bit elements, two a register: COUNT is a multiple of 8 and the address one of 16.
template <int COUNT, typename T>
__device__ void load_vectors(const T* source, unsigned* pairs) {
#pragma unroll
  for (int i = 0; i < COUNT / 8; ++i) {
    const uint4 eight = __ldg(reinterpret_cast<const uint4*>(source) + i);
    pairs[4 * i] = eight.x;
    pairs[4 * i + 1] = eight.y;
    pairs[4 * i + 2] = eight.z;
    pairs[4 * i + 3] = eight.w;
  }
}

// The same from any address.
template <int COUNT, typename T>
__device__ void load_elements(const T* source, unsigned* pairs) {
  const unsigned short* elements = reinterpret_cast<const unsigned short*>(source);
#pragma unroll
  for (int i = 0; i < COUNT / 2; ++i) {
    pairs[i] = unsigned(elements[2 * i]) | unsigned(elements[2 * i + 1]) << 16;
  }
}

// COUNT scales or biases of one output as they lie in memory.
template <typename S, int COUNT>
struct PackedElements {
  static constexpr int BYTES = COUNT * int(sizeof(S));
  static constexpr int UNIT = BYTES % 16 == 0 ? 16 : BYTES;
  alignas(16) S elements[COUNT];

  static __device__ bool aligned(const S* p) {
    return (UNIT == 4 || UNIT == 8 || UNIT == 16) && reinterpret_cast<size_t>(p) % UNIT == 0;
  }

  __device__ void load(const S* source) {
    if (UNIT == 4) {
      *reinterpret_cast<unsigned*>(elements) = __ldg(reinterpret_cast<const unsigned*>(source));
    } else if (UNIT == 8) {
      *reinterpret_cast<uint2*>(elements) = __ldg(reinterpret_cast<const uint2*>(source));
    } else if (UNIT == 16) {
#pragma unroll
      for (int i = 0; i < BYTES / 16; ++i) {
        reinterpret_cast<uint4*>(elements)[i] = __ldg(reinterpret_cast<const uint4*>(source) + i);
      }
    }
  }

  // The first `live` of them; the others take no part.
  __device__ void gather(const S* source, int live) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      elements[i] = source[i < live ? i : 0];
    }
  }

  __device__ float at(int i) const { return float(elements[i]); }
};

// Starts copying BYTES (4, 8 or 16, and aligned to as many) to shared memory.
template <int BYTES>
__device__ void copy_async(unsigned* target, const unsigned* source) {
  const unsigned address = unsigned(__cvta_generic_to_shared(target));
  if (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(source));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(source), "n"(BYTES));
  }
}
