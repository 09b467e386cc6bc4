// Numeric limits, constants and the index helpers that MLX puts before every custom kernel.

namespace metal {

template <class T> struct numeric_limits;

#define METAL_SIM_INTEGER_LIMITS(type)                                                             \
    template <> struct numeric_limits<type> {                                                      \
        static constexpr bool is_signed = static_cast<type>(-1) < static_cast<type>(0);            \
        static constexpr int digits = 8 * sizeof(type) - (is_signed ? 1 : 0);                      \
        static constexpr type max() {                                                              \
            return static_cast<type>(~0ull >> (64 - digits));                                      \
        }                                                                                          \
        static constexpr type min() { return static_cast<type>(is_signed ? -max() - 1 : 0); }      \
        static constexpr type lowest() { return min(); }                                           \
    };
METAL_SIM_INTEGER_LIMITS(char)
METAL_SIM_INTEGER_LIMITS(signed char)
METAL_SIM_INTEGER_LIMITS(unsigned char)
METAL_SIM_INTEGER_LIMITS(short)
METAL_SIM_INTEGER_LIMITS(unsigned short)
METAL_SIM_INTEGER_LIMITS(int)
METAL_SIM_INTEGER_LIMITS(unsigned int)
METAL_SIM_INTEGER_LIMITS(long)
METAL_SIM_INTEGER_LIMITS(unsigned long)
METAL_SIM_INTEGER_LIMITS(long long)
METAL_SIM_INTEGER_LIMITS(unsigned long long)
#undef METAL_SIM_INTEGER_LIMITS

template <> struct numeric_limits<bool> {
    static constexpr bool max() { return true; }
    static constexpr bool min() { return false; }
    static constexpr bool lowest() { return false; }
};

#define METAL_SIM_FLOAT_LIMITS(type, largest, smallest, step, bits, ten)        \
    template <> struct numeric_limits<type> {                                   \
        static constexpr bool is_signed = true;                                 \
        static constexpr int digits = bits;                                     \
        static constexpr int max_exponent = ten;                                \
        static constexpr type max() { return type(largest); }                   \
        static constexpr type min() { return type(smallest); }                  \
        static constexpr type lowest() { return type(-(largest)); }             \
        static constexpr type epsilon() { return type(step); }                  \
        static constexpr type infinity() { return type(__builtin_inff()); }     \
        static constexpr type quiet_NaN() { return type(__builtin_nanf("")); }  \
    };
METAL_SIM_FLOAT_LIMITS(float, 0x1.fffffep127f, 0x1p-126f, 0x1p-23f, 24, 128)
METAL_SIM_FLOAT_LIMITS(half, 65504.0f, 0x1p-14f, 0x1p-10f, 11, 16)
METAL_SIM_FLOAT_LIMITS(bfloat, 0x1.fep127f, 0x1p-126f, 0x1p-7f, 8, 128)
#undef METAL_SIM_FLOAT_LIMITS

}  // namespace metal

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VALF (__builtin_inff())
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1p-126f
#define FLT_EPSILON 0x1p-23f
#define HALF_MAX half(65504.0f)
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_1_PI_F 0.31830988618379067154f
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LN2_F 0.69314718055994530942f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u

// MLX's limits: infinities are the extremes of a float type, finite_* its largest numbers.
template <class T> struct Limits {
    static constexpr bool real = metal_sim::is_real<T>;
    static constexpr T finite_max = metal::numeric_limits<T>::max();
    static constexpr T finite_min = metal::numeric_limits<T>::lowest();
    static constexpr T max = real ? T(metal_sim::is_real<T> ? __builtin_inff() : 0.0f) : finite_max;
    static constexpr T min = real ? T(metal_sim::is_real<T> ? -__builtin_inff() : 0.0f) : finite_min;
};

// Offset of element `index` of a row-major shape in memory with the given strides (in elements).
template <class Index = int64_t>
inline Index elem_to_loc(Index index, const int* shape, const int64_t* strides, int ndim) {
    Index location = 0;
    for (int axis = ndim - 1; axis >= 0; axis--) {
        location += (index % static_cast<Index>(shape[axis])) * static_cast<Index>(strides[axis]);
        index /= static_cast<Index>(shape[axis]);
    }
    return location;
}

// The same for a position of three numbers: x along the last axis, y along the one before, z along all others.
template <class Index = int64_t>
inline Index elem_to_loc(uint3 position, const int* shape, const int64_t* strides, int ndim) {
    Index location = static_cast<Index>(position.x) * static_cast<Index>(strides[ndim - 1]) +
        static_cast<Index>(position.y) * static_cast<Index>(strides[ndim - 2]);
    return location + elem_to_loc<Index>(static_cast<Index>(position.z), shape, strides, ndim - 2);
}

template <class Index = int64_t> inline Index elem_to_loc_1(uint position, const int64_t& stride) {
    return static_cast<Index>(position) * static_cast<Index>(stride);
}
template <class Index = int64_t> inline Index elem_to_loc_2(uint2 position, const int64_t* strides) {
    return static_cast<Index>(position.x) * static_cast<Index>(strides[1]) +
        static_cast<Index>(position.y) * static_cast<Index>(strides[0]);
}
template <class Index = int64_t> inline Index elem_to_loc_3(uint3 position, const int64_t* strides) {
    return static_cast<Index>(position.x) * static_cast<Index>(strides[2]) +
        static_cast<Index>(position.y) * static_cast<Index>(strides[1]) +
        static_cast<Index>(position.z) * static_cast<Index>(strides[0]);
}

inline size_t ceildiv(size_t n, size_t m) { return (n + m - 1) / m; }
