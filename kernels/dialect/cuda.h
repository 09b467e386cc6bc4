// Metal's vocabulary in CUDA C++, so that the shader bodies compile as MLX `cuda_kernel` bodies.
//
// MLX puts this text after its own includes and before the kernel, which it opens `namespace mlx::core::cu` around. All
// names are defined in that namespace: there they hide CUDA's vector types of the same name, for the bodies as for the
// headers that follow (which are wrapped in the same namespace when a kernel is registered).
//
// One thing no macro can say: `threadgroup` is nothing in a pointer type and `__shared__` in a declaration of memory.
// Registration rewrites the word at the start of a line that declares an array.

#include "mlx/backend/cuda/device/fp16_math.cuh"

#include <cuda/std/cmath>

#define device
#define constant
#define thread
#define threadgroup

// Attributes. A threadgroup is a block; simdgroups are warps, counted along the linear thread index.
#define threadgroup_position_in_grid blockIdx
#define threadgroups_per_grid gridDim
#define thread_position_in_threadgroup threadIdx
#define threads_per_threadgroup blockDim
#define thread_position_in_grid (::mlx::core::cu::grid_position())
#define threads_per_grid (::mlx::core::cu::grid_threads())
#define thread_index_in_threadgroup (::mlx::core::cu::linear_thread())
#define thread_index_in_simdgroup (::mlx::core::cu::linear_thread() % 32u)
#define simdgroup_index_in_threadgroup (::mlx::core::cu::linear_thread() / 32u)
#define threads_per_simdgroup 32u
#define thread_execution_width 32u
#define simdgroups_per_threadgroup ((blockDim.x * blockDim.y * blockDim.z + 31u) / 32u)

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fc00000)
#endif

namespace mlx::core::cu {

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using ulong = unsigned long;
using half = __half;
using bfloat = __nv_bfloat16;
using float16_t = __half;
using bfloat16_t = __nv_bfloat16;

inline uint linear_thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

// ---- Vectors -------------------------------------------------------------------------------------------------------

// Members by name and by index, componentwise arithmetic, conversion between element types when asked for.
template <typename T, int N>
struct vec;

#define MLXK_VEC_COMMON(N)                       \
  vec() = default;                               \
  T& operator[](int i) { return (&x)[i]; }       \
  const T& operator[](int i) const { return (&x)[i]; }

template <typename T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
  T x, y;
  MLXK_VEC_COMMON(2)
  explicit vec(T all) : x(all), y(all) {}
  vec(T x, T y) : x(x), y(y) {}
  template <typename U>
  explicit vec(vec<U, 2> v) : x(T(v.x)), y(T(v.y)) {}
};

template <typename T>
struct alignas(4 * sizeof(T)) vec<T, 3> {
  T x, y, z;
  MLXK_VEC_COMMON(3)
  explicit vec(T all) : x(all), y(all), z(all) {}
  vec(T x, T y, T z) : x(x), y(y), z(z) {}
  template <typename U>
  explicit vec(vec<U, 3> v) : x(T(v.x)), y(T(v.y)), z(T(v.z)) {}
};

template <typename T>
struct alignas(4 * sizeof(T)) vec<T, 4> {
  T x, y, z, w;
  MLXK_VEC_COMMON(4)
  explicit vec(T all) : x(all), y(all), z(all), w(all) {}
  vec(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
  vec(vec<T, 2> low, vec<T, 2> high) : x(low.x), y(low.y), z(high.x), w(high.y) {}
  template <typename U>
  explicit vec(vec<U, 4> v) : x(T(v.x)), y(T(v.y)), z(T(v.z)), w(T(v.w)) {}
};
#undef MLXK_VEC_COMMON

#define MLXK_VEC_OPERATOR(op)                                     \
  template <typename T, int N>                                    \
  inline vec<T, N> operator op(vec<T, N> a, vec<T, N> b) {        \
    vec<T, N> result;                                             \
    _Pragma("unroll") for (int i = 0; i < N; ++i) {               \
      result[i] = T(a[i] op b[i]);                                \
    }                                                             \
    return result;                                                \
  }                                                               \
  template <typename T, int N>                                    \
  inline vec<T, N> operator op(vec<T, N> a, T b) {                \
    return a op vec<T, N>(b);                                     \
  }                                                               \
  template <typename T, int N>                                    \
  inline vec<T, N> operator op(T a, vec<T, N> b) {                \
    return vec<T, N>(a) op b;                                     \
  }                                                               \
  template <typename T, int N, typename U>                        \
  inline vec<T, N>& operator op##=(vec<T, N>& a, U b) {           \
    return a = a op b;                                            \
  }
MLXK_VEC_OPERATOR(+)
MLXK_VEC_OPERATOR(-)
MLXK_VEC_OPERATOR(*)
MLXK_VEC_OPERATOR(/)
MLXK_VEC_OPERATOR(&)
MLXK_VEC_OPERATOR(|)
MLXK_VEC_OPERATOR(^)
MLXK_VEC_OPERATOR(<<)
MLXK_VEC_OPERATOR(>>)
#undef MLXK_VEC_OPERATOR

#define MLXK_VEC_NAMES(T)  \
  using T##2 = vec<T, 2>;  \
  using T##3 = vec<T, 3>;  \
  using T##4 = vec<T, 4>;
MLXK_VEC_NAMES(float)
MLXK_VEC_NAMES(half)
MLXK_VEC_NAMES(bfloat)
MLXK_VEC_NAMES(char)
MLXK_VEC_NAMES(uchar)
MLXK_VEC_NAMES(short)
MLXK_VEC_NAMES(ushort)
MLXK_VEC_NAMES(int)
MLXK_VEC_NAMES(uint)
#undef MLXK_VEC_NAMES

inline uint3 grid_position() {
  return uint3(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
               blockIdx.z * blockDim.z + threadIdx.z);
}

inline uint3 grid_threads() {
  return uint3(gridDim.x * blockDim.x, gridDim.y * blockDim.y, gridDim.z * blockDim.z);
}

// Four consecutive elements, widened: one load where the address allows it. Narrower than common/load.h's form for any
// pointer, so that it is preferred to that. Nothing is computed from the elements inside the branches, so that many
// loads can be under way at once.
template <typename T>
inline float4 load4(const T* p) {
  vec<T, 4> elements;
  if (reinterpret_cast<size_t>(p) % (4 * sizeof(T)) == 0) {
    elements = *reinterpret_cast<const vec<T, 4>*>(p);
  } else {
    elements = vec<T, 4>(p[0], p[1], p[2], p[3]);
  }
  return float4(elements);
}

// Eight in loads of 16 bytes, the widest: lanes that read far apart pay for each load, not for each byte.
template <typename T>
inline bool holds_vectors(const T* p) {
  return reinterpret_cast<size_t>(p) % 16 == 0;
}
template <bool VECTORS, typename T>
inline void load8(const T* p, float4& low, float4& high) {
  struct alignas(16) Halves {
    vec<T, 4> low;
    vec<T, 4> high;
  };
  Halves halves;
  if (VECTORS) {
    halves = *reinterpret_cast<const Halves*>(p);
  } else {
    halves.low = vec<T, 4>(p[0], p[1], p[2], p[3]);
    halves.high = vec<T, 4>(p[4], p[5], p[6], p[7]);
  }
  low = float4(halves.low);
  high = float4(halves.high);
}

// ---- Scalars -------------------------------------------------------------------------------------------------------

// Reinterprets the bits of one value as another type of the same size.
template <typename To, typename From>
inline To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

inline float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
inline half fma(half a, half b, half c) { return __hfma(a, b, c); }
template <int N>
inline vec<float, N> fma(vec<float, N> a, vec<float, N> b, vec<float, N> c) {
  vec<float, N> result;
  _Pragma("unroll") for (int i = 0; i < N; ++i) {
    result[i] = __fmaf_rn(a[i], b[i], c[i]);
  }
  return result;
}

template <int N>
inline float dot(vec<float, N> a, vec<float, N> b) {
  float sum = a[0] * b[0];
  _Pragma("unroll") for (int i = 1; i < N; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

#define MLXK_MIN_MAX(T, least, most)                     \
  inline T min(T a, T b) { return least; }               \
  inline T max(T a, T b) { return most; }                \
  inline T clamp(T a, T low, T high) { return min(max(a, low), high); }
MLXK_MIN_MAX(int, b < a ? b : a, a < b ? b : a)
MLXK_MIN_MAX(uint, b < a ? b : a, a < b ? b : a)
MLXK_MIN_MAX(long, b < a ? b : a, a < b ? b : a)
MLXK_MIN_MAX(ulong, b < a ? b : a, a < b ? b : a)
MLXK_MIN_MAX(float, ::fminf(a, b), ::fmaxf(a, b))
#undef MLXK_MIN_MAX

inline int abs(int a) { return a < 0 ? -a : a; }
inline float abs(float a) { return ::fabsf(a); }
inline bool isnan(float a) { return a != a; }
inline bool isinf(float a) { return ::fabsf(a) == INFINITY; }
inline uint popcount(uint a) { return uint(__popc(int(a))); }
inline uint clz(uint a) { return uint(__clz(int(a))); }
inline uint mulhi(uint a, uint b) { return __umulhi(a, b); }

template <typename T>
inline T select(T when_false, T when_true, bool condition) {
  return condition ? when_true : when_false;
}

// Metal's precise functions are correctly rounded or within a few units; these are at least as near.
namespace precise {
inline float sqrt(float a) { return __fsqrt_rn(a); }
inline float rsqrt(float a) { return __frsqrt_rn(a); }
inline float divide(float a, float b) { return __fdiv_rn(a, b); }
inline float exp(float a) { return ::expf(a); }
inline float log(float a) { return ::logf(a); }
inline float tanh(float a) { return ::tanhf(a); }
}  // namespace precise

namespace fast {
inline float exp(float a) { return __expf(a); }
inline float divide(float a, float b) { return __fdividef(a, b); }
}  // namespace fast

using precise::exp;
using precise::log;
using precise::rsqrt;
using precise::sqrt;
using precise::tanh;

// The 16-bit types have the functions that MLX's own kernels take for them. (fp16_math.cuh, too, is MLX's: operators between
// them and integers.)
inline half exp(half a) { return ::cuda::std::exp(a); }
inline bfloat exp(bfloat a) { return ::cuda::std::exp(a); }
inline half abs(half a) { return ::cuda::std::abs(a); }
inline bfloat abs(bfloat a) { return ::cuda::std::abs(a); }

inline float floor(float a) { return ::floorf(a); }
inline float ceil(float a) { return ::ceilf(a); }
inline float rint(float a) { return ::rintf(a); }
inline float trunc(float a) { return ::truncf(a); }

// ---- Simdgroups ----------------------------------------------------------------------------------------------------

// Every lane takes part in each of these. The order of a sum is not specified, in Metal either.
template <typename T>
inline T simd_shuffle(T value, ushort lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
template <typename T>
inline T simd_shuffle_xor(T value, ushort mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <typename T>
inline T simd_shuffle_down(T value, ushort delta) {
  return __shfl_down_sync(0xffffffffu, value, delta);
}
template <typename T>
inline T simd_shuffle_up(T value, ushort delta) {
  return __shfl_up_sync(0xffffffffu, value, delta);
}
template <typename T>
inline T simd_broadcast(T value, ushort lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
template <typename T, int N>
inline vec<T, N> simd_shuffle(vec<T, N> value, ushort lane) {
  vec<T, N> result;
  _Pragma("unroll") for (int i = 0; i < N; ++i) {
    result[i] = simd_shuffle(value[i], lane);
  }
  return result;
}

#define MLXK_SIMD_REDUCTION(name, combine)                        \
  template <typename T>                                           \
  inline T name(T a) {                                            \
    _Pragma("unroll") for (int mask = 16; mask > 0; mask /= 2) {  \
      const T b = __shfl_xor_sync(0xffffffffu, a, mask);          \
      a = combine;                                                \
    }                                                             \
    return a;                                                     \
  }
MLXK_SIMD_REDUCTION(simd_sum, a + b)
MLXK_SIMD_REDUCTION(simd_max, max(a, b))
MLXK_SIMD_REDUCTION(simd_min, min(a, b))
#undef MLXK_SIMD_REDUCTION

inline bool simd_any(bool a) { return __any_sync(0xffffffffu, a) != 0; }
inline bool simd_all(bool a) { return __all_sync(0xffffffffu, a) != 0; }

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }

// A block barrier orders shared and global memory within the block, whatever the flags.
inline void threadgroup_barrier(mem_flags) { __syncthreads(); }
inline void simdgroup_barrier(mem_flags) { __syncwarp(); }

// ---- 8x8 matrices --------------------------------------------------------------------------------------------------

// Metal's fragment layout: with lane = b4 b3 b2 b1 b0 in binary, the lane holds row 4 b4 + 2 b2 + b1, columns
// 4 b3 + 2 b0 and the next. So bits 4, 2, 1 of the lane name the row and bits 3, 0 the pair of columns.
inline uint matrix_row() {
  const uint lane = linear_thread() % 32u;
  return (lane >> 4 & 1u) * 4u + (lane >> 2 & 1u) * 2u + (lane >> 1 & 1u);
}
inline uint matrix_column() {
  const uint lane = linear_thread() % 32u;
  return (lane >> 3 & 1u) * 4u + (lane & 1u) * 2u;
}

template <typename T, int Columns, int Rows>
struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "matrices of a simdgroup are 8x8");
  vec<T, 2> elements;
  simdgroup_matrix() = default;
  // The scalar on the diagonal, as in Metal.
  explicit simdgroup_matrix(T diagonal) {
    const uint row = matrix_row();
    const uint column = matrix_column();
    elements = vec<T, 2>(row == column ? diagonal : T(0.0f), row == column + 1u ? diagonal : T(0.0f));
  }
  vec<T, 2>& thread_elements() { return elements; }
  const vec<T, 2>& thread_elements() const { return elements; }
};
using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;

// d = a b + c, t ascending, factors widened and sums in full float32: the tensor cores would round the factors.
template <typename D, typename A, typename B, typename C>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                          const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<C, 8, 8>& c) {
  const int lane = int(linear_thread() % 32u);
  const float2 left = float2(a.elements);
  const float2 right = float2(b.elements);
  float2 sum = float2(c.elements);
  _Pragma("unroll") for (int t = 0; t < 8; ++t) {
    const int a_lane = (lane & 22) | ((t & 4) << 1) | ((t & 2) >> 1);
    const int b_lane = (lane & 9) | ((t & 4) << 2) | ((t & 3) << 1);
    const float factor = __shfl_sync(0xffffffffu, t % 2 == 0 ? left.x : left.y, a_lane);
    sum.x = __fmaf_rn(factor, __shfl_sync(0xffffffffu, right.x, b_lane), sum.x);
    sum.y = __fmaf_rn(factor, __shfl_sync(0xffffffffu, right.y, b_lane), sum.y);
  }
  d.elements = vec<D, 2>(sum);
}

template <typename D, typename A, typename B>
inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                               const simdgroup_matrix<B, 8, 8>& b) {
  simdgroup_float8x8 zero;
  zero.elements = float2(0.0f);
  simdgroup_multiply_accumulate(d, a, b, zero);
}

// Row-major 8x8 tiles, `stride` elements from row to row.
template <typename T>
inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& matrix, const T* source, size_t stride = 8) {
  const size_t first = matrix_row() * stride + matrix_column();
  matrix.elements = vec<T, 2>(source[first], source[first + 1]);
}
template <typename T>
inline void simdgroup_store(const simdgroup_matrix<T, 8, 8>& matrix, T* target, size_t stride = 8) {
  const size_t first = matrix_row() * stride + matrix_column();
  target[first] = matrix.elements.x;
  target[first + 1] = matrix.elements.y;
}

}  // namespace mlx::core::cu

namespace metal = mlx::core::cu;
