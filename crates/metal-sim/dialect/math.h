// Metal's math, common, integer, relational and geometric functions, for scalars and component by component.
//
// Floats use the host's correctly rounded operations and its C library's float functions; half and bfloat compute in
// float and round once. metal::fast and metal::precise name the same functions: the simulator is always precise.

namespace metal_sim {

// The scalar functions below, applied to operands of any kind.
template <class F, class A> inline auto lift(F f, const A& a) {
    if constexpr (is_vector<A>) {
        const vector_of<A> v = a;
        typedef decltype(f(v.data[0])) R;
        return map<R, components<A>>([&](int i) { return f(v.data[i]); });
    } else {
        return f(a);
    }
}
template <class F, class A, class B> inline auto lift(F f, const A& a, const B& b) {
    if constexpr (is_vector<A> || is_vector<B>) {
        typedef pair_vector<A, B> V;
        const V va = spread<V>(a), vb = spread<V>(b);
        typedef decltype(f(va.data[0], vb.data[0])) R;
        return map<R, components<V>>([&](int i) { return f(va.data[i], vb.data[i]); });
    } else {
        static_assert(same<A, B>, "the arguments must have the same type: Metal finds such a call ambiguous");
        return f(a, b);
    }
}
template <class F, class A, class B, class C> inline auto lift(F f, const A& a, const B& b, const C& c) {
    if constexpr (is_vector<A> || is_vector<B> || is_vector<C>) {
        typedef pair_vector<pair_vector<A, B>, C> V;
        const V va = spread<V>(a), vb = spread<V>(b), vc = spread<V>(c);
        typedef decltype(f(va.data[0], vb.data[0], vc.data[0])) R;
        return map<R, components<V>>([&](int i) { return f(va.data[i], vb.data[i], vc.data[i]); });
    } else {
        static_assert(same<A, B> && same<B, C>, "the arguments must have the same type: Metal finds such a call ambiguous");
        return f(a, b, c);
    }
}

template <class T> inline constexpr bool is_real = is_floating<T> || is_narrow<T>;

template <class T> inline T fused_multiply_add(T a, T b, T c) {
    static_assert(is_real<T>, "fma takes floating-point arguments");
    if constexpr (same<T, float>) return __builtin_fmaf(a, b, c);
    // In double the product is exact, and a sum that is not exact lies far from any tie of a 16-bit float.
    else return T(static_cast<double>(float(a)) * static_cast<double>(float(b)) + static_cast<double>(float(c)));
}

// Metal's min and max are fmin and fmax: of a number and a NaN, the number.
template <class T> inline T least(T a, T b) { return b < a || a != a ? b : a; }
template <class T> inline T greatest(T a, T b) { return a < b || a != a ? b : a; }

template <int Bytes> struct unsigned_integer;
template <> struct unsigned_integer<1> { typedef uint8_t type; };
template <> struct unsigned_integer<2> { typedef uint16_t type; };
template <> struct unsigned_integer<4> { typedef uint32_t type; };
template <> struct unsigned_integer<8> { typedef uint64_t type; };
template <class T> using unsigned_of = typename unsigned_integer<sizeof(T)>::type;

}  // namespace metal_sim

namespace metal {

#define METAL_SIM_FLOAT_FUNCTION(name, expression)                                                   \
    template <metal_sim::operand A> inline auto name(const A& a) {                                   \
        return metal_sim::lift(                                                                      \
            [](auto element) {                                                                       \
                static_assert(metal_sim::is_real<decltype(element)>, #name " takes a floating-point argument"); \
                const float x = element;                                                             \
                return decltype(element)(expression);                                                \
            },                                                                                       \
            a);                                                                                      \
    }
METAL_SIM_FLOAT_FUNCTION(exp, __builtin_expf(x))
METAL_SIM_FLOAT_FUNCTION(exp2, __builtin_exp2f(x))
METAL_SIM_FLOAT_FUNCTION(exp10, __builtin_powf(10.0f, x))
METAL_SIM_FLOAT_FUNCTION(expm1, __builtin_expm1f(x))
METAL_SIM_FLOAT_FUNCTION(log, __builtin_logf(x))
METAL_SIM_FLOAT_FUNCTION(log2, __builtin_log2f(x))
METAL_SIM_FLOAT_FUNCTION(log10, __builtin_log10f(x))
METAL_SIM_FLOAT_FUNCTION(log1p, __builtin_log1pf(x))
METAL_SIM_FLOAT_FUNCTION(sqrt, __builtin_sqrtf(x))
METAL_SIM_FLOAT_FUNCTION(rsqrt, static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x))))
METAL_SIM_FLOAT_FUNCTION(sin, __builtin_sinf(x))
METAL_SIM_FLOAT_FUNCTION(cos, __builtin_cosf(x))
METAL_SIM_FLOAT_FUNCTION(tan, __builtin_tanf(x))
METAL_SIM_FLOAT_FUNCTION(asin, __builtin_asinf(x))
METAL_SIM_FLOAT_FUNCTION(acos, __builtin_acosf(x))
METAL_SIM_FLOAT_FUNCTION(atan, __builtin_atanf(x))
METAL_SIM_FLOAT_FUNCTION(sinh, __builtin_sinhf(x))
METAL_SIM_FLOAT_FUNCTION(cosh, __builtin_coshf(x))
METAL_SIM_FLOAT_FUNCTION(tanh, __builtin_tanhf(x))
METAL_SIM_FLOAT_FUNCTION(asinh, __builtin_asinhf(x))
METAL_SIM_FLOAT_FUNCTION(acosh, __builtin_acoshf(x))
METAL_SIM_FLOAT_FUNCTION(atanh, __builtin_atanhf(x))
METAL_SIM_FLOAT_FUNCTION(erf, __builtin_erff(x))
METAL_SIM_FLOAT_FUNCTION(floor, __builtin_floorf(x))
METAL_SIM_FLOAT_FUNCTION(ceil, __builtin_ceilf(x))
METAL_SIM_FLOAT_FUNCTION(trunc, __builtin_truncf(x))
METAL_SIM_FLOAT_FUNCTION(round, __builtin_roundf(x))
METAL_SIM_FLOAT_FUNCTION(rint, __builtin_rintf(x))
METAL_SIM_FLOAT_FUNCTION(fabs, __builtin_fabsf(x))
METAL_SIM_FLOAT_FUNCTION(fract, __builtin_fminf(x - __builtin_floorf(x), 0x1.fffffep-1f))
METAL_SIM_FLOAT_FUNCTION(sign, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? x : 0.0f)
METAL_SIM_FLOAT_FUNCTION(saturate, x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f)
METAL_SIM_FLOAT_FUNCTION(sinpi, __builtin_sinf(3.14159265358979f * x))
METAL_SIM_FLOAT_FUNCTION(cospi, __builtin_cosf(3.14159265358979f * x))
#undef METAL_SIM_FLOAT_FUNCTION

#define METAL_SIM_FLOAT_FUNCTION_2(name, expression)                                                 \
    template <metal_sim::operand A, metal_sim::operand B> inline auto name(const A& a, const B& b) { \
        return metal_sim::lift(                                                                      \
            [](auto first, auto second) {                                                            \
                static_assert(metal_sim::is_real<decltype(first)>, #name " takes floating-point arguments"); \
                const float x = first, y = second;                                                   \
                return decltype(first)(expression);                                                  \
            },                                                                                       \
            a, b);                                                                                   \
    }
METAL_SIM_FLOAT_FUNCTION_2(pow, __builtin_powf(x, y))
METAL_SIM_FLOAT_FUNCTION_2(powr, __builtin_powf(x, y))
METAL_SIM_FLOAT_FUNCTION_2(atan2, __builtin_atan2f(x, y))
METAL_SIM_FLOAT_FUNCTION_2(fmod, __builtin_fmodf(x, y))
METAL_SIM_FLOAT_FUNCTION_2(copysign, __builtin_copysignf(x, y))
METAL_SIM_FLOAT_FUNCTION_2(fdim, __builtin_fdimf(x, y))
METAL_SIM_FLOAT_FUNCTION_2(step, y < x ? 0.0f : 1.0f)
METAL_SIM_FLOAT_FUNCTION_2(divide, x / y)
METAL_SIM_FLOAT_FUNCTION_2(fmin, metal_sim::least(x, y))
METAL_SIM_FLOAT_FUNCTION_2(fmax, metal_sim::greatest(x, y))
#undef METAL_SIM_FLOAT_FUNCTION_2

#define METAL_SIM_FUNCTION_1(name, expression)                     \
    template <metal_sim::operand A> inline auto name(const A& a) { \
        return metal_sim::lift([](auto x) { return expression; }, a); \
    }
#define METAL_SIM_FUNCTION_2(name, expression)                                                       \
    template <metal_sim::operand A, metal_sim::operand B> inline auto name(const A& a, const B& b) { \
        return metal_sim::lift([](auto x, decltype(x) y) { return expression; }, a, b);              \
    }
#define METAL_SIM_FUNCTION_3(name, expression)                                                        \
    template <metal_sim::operand A, metal_sim::operand B, metal_sim::operand C>                       \
    inline auto name(const A& a, const B& b, const C& c) {                                            \
        return metal_sim::lift([](auto x, decltype(x) y, decltype(x) z) { return expression; }, a, b, c); \
    }
METAL_SIM_FUNCTION_3(fma, metal_sim::fused_multiply_add(x, y, z))
METAL_SIM_FUNCTION_2(min, metal_sim::least(x, y))
METAL_SIM_FUNCTION_2(max, metal_sim::greatest(x, y))
METAL_SIM_FUNCTION_3(min3, metal_sim::least(x, metal_sim::least(y, z)))
METAL_SIM_FUNCTION_3(max3, metal_sim::greatest(x, metal_sim::greatest(y, z)))
METAL_SIM_FUNCTION_3(clamp, metal_sim::least(metal_sim::greatest(x, y), z))
METAL_SIM_FUNCTION_3(mix, decltype(x)(x + (y - x) * z))
METAL_SIM_FUNCTION_3(mad24, decltype(x)(x * y + z))
METAL_SIM_FUNCTION_2(mul24, decltype(x)(x * y))
METAL_SIM_FUNCTION_2(absdiff, static_cast<metal_sim::unsigned_of<decltype(x)>>(x < y ? y - x : x - y))
METAL_SIM_FUNCTION_2(hadd, decltype(x)((static_cast<long>(x) + static_cast<long>(y)) >> 1))

#define METAL_SIM_BITS(name, expression)                                                       \
    METAL_SIM_FUNCTION_1(name, ([](auto value) {                                               \
                             typedef metal_sim::unsigned_of<decltype(value)> U;                \
                             constexpr int width = 8 * sizeof(U);                              \
                             const U u = static_cast<U>(value);                                \
                             (void)width;                                                      \
                             return static_cast<decltype(value)>(expression);                  \
                         })(x))
METAL_SIM_BITS(popcount, __builtin_popcountll(u))
METAL_SIM_BITS(clz, u == 0 ? width : __builtin_clzll(u) - (64 - width))
METAL_SIM_BITS(ctz, u == 0 ? width : __builtin_ctzll(u))
#undef METAL_SIM_BITS

template <metal_sim::operand A> inline auto abs(const A& a) {
    return metal_sim::lift(
        [](auto x) {
            typedef decltype(x) T;
            if constexpr (metal_sim::is_real<T>) return T(__builtin_fabsf(x));
            else return static_cast<T>(x < 0 ? -x : x);
        },
        a);
}

template <metal_sim::operand A> inline auto reverse_bits(const A& a) {
    return metal_sim::lift(
        [](auto x) {
            metal_sim::unsigned_of<decltype(x)> in = x, out = 0;
            for (unsigned i = 0; i < 8 * sizeof(in); i++) out = static_cast<decltype(out)>(out << 1 | ((in >> i) & 1));
            return static_cast<decltype(x)>(out);
        },
        a);
}

template <metal_sim::operand A, metal_sim::operand B> inline auto mulhi(const A& a, const B& b) {
    return metal_sim::lift(
        [](auto x, decltype(x) y) {
            typedef decltype(x) T;
            return static_cast<T>((static_cast<__int128>(x) * static_cast<__int128>(y)) >> (8 * sizeof(T)));
        },
        a, b);
}

template <metal_sim::operand A, metal_sim::operand B> inline auto rotate(const A& a, const B& b) {
    return metal_sim::lift(
        [](auto x, decltype(x) by) {
            typedef metal_sim::unsigned_of<decltype(x)> U;
            constexpr unsigned width = 8 * sizeof(U);
            const unsigned left = static_cast<unsigned>(by) % width;
            const U u = static_cast<U>(x);
            return static_cast<decltype(x)>(left == 0 ? u : static_cast<U>(u << left | u >> (width - left)));
        },
        a, b);
}

template <class T> requires(metal_sim::is_integer<T>) inline T extract_bits(T x, uint offset, uint count) {
    if (count == 0) return 0;
    const uint width = 8 * sizeof(T);
    // Up to the top, then down: the sign of T decides what fills.
    return static_cast<T>(static_cast<T>(x << (width - count - offset)) >> (width - count));
}

template <class T> requires(metal_sim::is_integer<T>) inline T insert_bits(T base, T insert, uint offset, uint count) {
    typedef metal_sim::unsigned_of<T> U;
    if (count == 0) return base;
    const U mask = static_cast<U>(static_cast<U>(static_cast<U>(~U(0)) >> (8 * sizeof(T) - count)) << offset);
    return static_cast<T>((static_cast<U>(base) & static_cast<U>(~mask)) | (static_cast<U>(static_cast<U>(insert) << offset) & mask));
}

METAL_SIM_FUNCTION_1(isnan, x != x)
METAL_SIM_FUNCTION_1(isinf, (__builtin_fabsf(x) == __builtin_inff()))
METAL_SIM_FUNCTION_1(isfinite, (__builtin_fabsf(x) < __builtin_inff()))
METAL_SIM_FUNCTION_1(isnormal, (__builtin_isnormal(static_cast<float>(x)) != 0))
METAL_SIM_FUNCTION_1(signbit, (__builtin_signbit(static_cast<float>(x)) != 0))
#undef METAL_SIM_FUNCTION_1
#undef METAL_SIM_FUNCTION_2
#undef METAL_SIM_FUNCTION_3

// select(a, b, c) is b where c, else a.
template <metal_sim::operand A, metal_sim::operand B, metal_sim::operand C>
inline auto select(const A& a, const B& b, const C& c) {
    if constexpr (metal_sim::is_vector<A>) {
        const metal_sim::vector_of<A> va = a, vb = b;
        return metal_sim::map<metal_sim::component_of<A>, metal_sim::components<A>>(
            [&](int i) { return metal_sim::component(c, i) ? vb.data[i] : va.data[i]; });
    } else {
        static_assert(metal_sim::same<A, B>, "both values of select must have the same type");
        return c ? b : a;
    }
}

template <metal_sim::operand A> inline bool any(const A& a) {
    bool found = false;
    for (int i = 0; i < metal_sim::components<A>; i++) found = found || metal_sim::component(a, i);
    return found;
}
template <metal_sim::operand A> inline bool all(const A& a) {
    bool held = true;
    for (int i = 0; i < metal_sim::components<A>; i++) held = held && metal_sim::component(a, i);
    return held;
}

template <metal_sim::operand A, metal_sim::operand B>
    requires(metal_sim::vector_pair<A, B>)
inline auto dot(const A& a, const B& b) {
    auto product = a * b;
    auto sum = product.data[0];
    for (int i = 1; i < metal_sim::components<decltype(product)>; i++) sum = sum + product.data[i];
    return sum;
}
template <metal_sim::operand A> requires(metal_sim::is_vector<A>) inline auto length_squared(const A& a) {
    return dot(a, a);
}
template <metal_sim::operand A> requires(metal_sim::is_vector<A>) inline auto length(const A& a) {
    return sqrt(dot(a, a));
}
template <metal_sim::operand A, metal_sim::operand B> inline auto distance(const A& a, const B& b) {
    return length(a - b);
}
template <metal_sim::operand A> requires(metal_sim::is_vector<A>) inline auto normalize(const A& a) {
    return a * rsqrt(dot(a, a));
}
template <class T> inline vec<T, 3> cross(const vec<T, 3>& a, const vec<T, 3>& b) {
    return a.yzx * b.zxy - a.zxy * b.yzx;
}

template <class To, class From> inline To as_type(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "as_type takes a type of the same size");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

namespace fast = ::metal;
namespace precise = ::metal;

}  // namespace metal
