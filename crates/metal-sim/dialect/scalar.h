// Scalar types of the Metal shading language: sized integers, half and bfloat.
//
// No standard header is included anywhere in the dialect. It keeps a compile short, and it keeps the C library's
// double-precision overloads out of the name lookup of kernel bodies.

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __UINTPTR_TYPE__ uintptr_t;

typedef uint8_t uchar;
typedef uint16_t ushort;
typedef uint32_t uint;
typedef uint64_t ulong;

namespace metal_sim {

template <class A, class B> struct same_type { static constexpr bool value = false; };
template <class A> struct same_type<A, A> { static constexpr bool value = true; };
template <class A, class B> inline constexpr bool same = same_type<A, B>::value;

template <class T> struct strip { typedef T type; };
template <class T> struct strip<const T> { typedef T type; };
template <class T> struct strip<volatile T> { typedef T type; };
template <class T> struct strip<const volatile T> { typedef T type; };
template <class T> struct strip<T&> : strip<T> {};
template <class T> struct strip<T&&> : strip<T> {};
template <class T> using bare = typename strip<T>::type;

template <class T> inline constexpr bool is_floating = same<T, float> || same<T, double>;
template <class T>
inline constexpr bool is_integer = same<T, bool> || same<T, char> || same<T, signed char> || same<T, unsigned char> ||
    same<T, short> || same<T, unsigned short> || same<T, int> || same<T, unsigned int> || same<T, long> ||
    same<T, unsigned long> || same<T, long long> || same<T, unsigned long long>;

// Built-in arithmetic types: those that operators of half and bfloat may meet.
template <class T> concept arithmetic = is_floating<T> || is_integer<T>;

template <class To, class From> constexpr To bits_as(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "the bits of a value can only be read as a type of the same size");
    return __builtin_bit_cast(To, from);
}

// Rounds to float towards the odd neighbour. A second rounding to a type with at least two bits less is then the
// correct rounding of the double (Boldo and Melquiond, "When double rounding is odd").
constexpr float round_to_odd(double value) {
    const float near = static_cast<float>(value);
    if (static_cast<double>(near) == value || near != near) return near;
    const uint32_t bits = bits_as<uint32_t>(near);
    if (bits & 1u) return near;
    const bool grow = (value < 0 ? -value : value) > (near < 0 ? -static_cast<double>(near) : static_cast<double>(near));
    return bits_as<float>(grow ? bits + 1u : bits - 1u);
}

struct binary16 {
    static constexpr float decode(uint16_t bits) {
#ifdef __FLT16_MANT_DIG__
        return static_cast<float>(bits_as<_Float16>(bits));
#else
        const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
        const uint32_t exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
        if (exponent == 31u) return bits_as<float>(sign | 0x7f800000u | (fraction << 13));
        if (exponent != 0u) return bits_as<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -magnitude : magnitude;
#endif
    }
    static constexpr uint16_t encode(float value) {
#ifdef __FLT16_MANT_DIG__
        return bits_as<uint16_t>(static_cast<_Float16>(value));
#else
        const uint32_t bits = bits_as<uint32_t>(value), magnitude = bits & 0x7fffffffu;
        const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
        if (magnitude > 0x7f800000u) return sign | 0x7e00u | static_cast<uint16_t>((magnitude >> 13) & 1023u);
        if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
        if (magnitude < 0x38800000u) {
            // Below 2^-14: adding 0.5 puts the last bit of a subnormal half, 2^-24, at the last bit of a float.
            const float shifted = bits_as<float>(magnitude) + 0.5f;
            return sign | static_cast<uint16_t>(bits_as<uint32_t>(shifted) - 0x3f000000u);
        }
        const uint32_t rounded = magnitude + 0x0fffu + ((magnitude >> 13) & 1u);
        return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
#endif
    }
};

struct brain16 {
    static constexpr float decode(uint16_t bits) { return bits_as<float>(static_cast<uint32_t>(bits) << 16); }
    static constexpr uint16_t encode(float value) {
        const uint32_t bits = bits_as<uint32_t>(value);
        if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40u);
        return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    }
};

// A 16-bit float: each operation is done in float and rounded to the type, to nearest, ties to even. For + - * / and
// square root that equals one rounding of the exact result, since 24 >= 2 * 11 + 2.
template <class Format> struct narrow {
    uint16_t bits;

    narrow() = default;
    constexpr narrow(float value) : bits(Format::encode(value)) {}
    constexpr narrow(double value) : bits(Format::encode(round_to_odd(value))) {}
    template <class A> requires(is_integer<A>)
    constexpr narrow(A value) : bits(Format::encode(round_to_odd(static_cast<double>(value)))) {}
    template <class Other> explicit constexpr narrow(narrow<Other> value) : narrow(static_cast<float>(value)) {}

    constexpr operator float() const { return Format::decode(bits); }

    static constexpr narrow from_bits(uint16_t bits) {
        narrow value = narrow();
        value.bits = bits;
        return value;
    }

    constexpr narrow operator-() const { return from_bits(bits ^ 0x8000u); }
    constexpr narrow operator+() const { return *this; }
    narrow& operator++() { return *this = *this + narrow(1.0f); }
    narrow& operator--() { return *this = *this - narrow(1.0f); }

#define METAL_SIM_OPERATOR(op)                                                                                    \
    friend constexpr narrow operator op(narrow a, narrow b) {                                                     \
        return narrow(static_cast<float>(a) op static_cast<float>(b));                                            \
    }                                                                                                             \
    template <class A> requires(is_integer<A>) friend constexpr narrow operator op(narrow a, A b) {               \
        return a op narrow(b);                                                                                    \
    }                                                                                                             \
    template <class A> requires(is_integer<A>) friend constexpr narrow operator op(A a, narrow b) {               \
        return narrow(a) op b;                                                                                    \
    }                                                                                                             \
    template <class A> requires(is_floating<A>) friend constexpr A operator op(narrow a, A b) {                   \
        return static_cast<float>(a) op b;                                                                        \
    }                                                                                                             \
    template <class A> requires(is_floating<A>) friend constexpr A operator op(A a, narrow b) {                   \
        return a op static_cast<float>(b);                                                                        \
    }                                                                                                             \
    template <class A> constexpr narrow& operator op##=(A b) { return *this = narrow(*this op b); }
    METAL_SIM_OPERATOR(+)
    METAL_SIM_OPERATOR(-)
    METAL_SIM_OPERATOR(*)
    METAL_SIM_OPERATOR(/)
#undef METAL_SIM_OPERATOR
};

template <class T> inline constexpr bool is_narrow = false;
template <class Format> inline constexpr bool is_narrow<narrow<Format>> = true;
template <class T> inline constexpr bool is_scalar = arithmetic<T> || is_narrow<T>;

}  // namespace metal_sim

typedef metal_sim::narrow<metal_sim::binary16> half;
typedef metal_sim::narrow<metal_sim::brain16> bfloat;
typedef half float16_t;
typedef bfloat bfloat16_t;
