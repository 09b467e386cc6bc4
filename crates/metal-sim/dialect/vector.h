// Vectors of two to four components, with Metal's sizes and alignments, and their component-wise operators.
//
// Swizzles: every single component (x y z w, r g b a), every pair, and of the longer ones the runs, reversals,
// repetitions and the common interleavings listed below. They can be read and assigned.

namespace metal {
template <class T, int N> struct vec;
}

namespace metal_sim {

// A selection of components: shares the vector's storage, converts to a vector and can be assigned one.
template <class T, int N, int... I> struct swizzle {
    static constexpr int count = sizeof...(I);
    typedef metal::vec<T, count> value_type;
    T data[N];

    operator value_type() const { return value_type(data[I]...); }
    swizzle& operator=(const value_type& value) {
        int from = 0;
        ((data[I] = value.data[from++]), ...);
        return *this;
    }
    // Not the implicit one, which would copy the components outside the selection too.
    swizzle& operator=(const swizzle& other) { return *this = static_cast<value_type>(other); }
    template <class A> swizzle& operator+=(const A& a) { return *this = static_cast<value_type>(*this) + a; }
    template <class A> swizzle& operator-=(const A& a) { return *this = static_cast<value_type>(*this) - a; }
    template <class A> swizzle& operator*=(const A& a) { return *this = static_cast<value_type>(*this) * a; }
    template <class A> swizzle& operator/=(const A& a) { return *this = static_cast<value_type>(*this) / a; }
};

// What a type is as a vector: its component type and count (count 0: not a vector).
template <class V> struct vector_traits { static constexpr int count = 0; typedef V component; };
template <class T, int N> struct vector_traits<metal::vec<T, N>> {
    static constexpr int count = N;
    typedef T component;
};
template <class T, int N, int... I> struct vector_traits<swizzle<T, N, I...>> {
    static constexpr int count = sizeof...(I);
    typedef T component;
};
template <class V> inline constexpr int components = vector_traits<V>::count == 0 ? 1 : vector_traits<V>::count;
template <class V> inline constexpr bool is_vector = vector_traits<V>::count != 0;
template <class V> using component_of = typename vector_traits<V>::component;
template <class V> using vector_of = metal::vec<component_of<V>, vector_traits<V>::count>;
template <class V> concept operand = is_vector<V> || is_scalar<V>;

// Component i of a vector, or a scalar for every i.
template <class V> inline auto component(const V& value, int i) {
    if constexpr (is_vector<V>) return static_cast<const vector_of<V>&>(value).data[i];
    else return value;
}

// Two operands of a component-wise operation: vectors of one type, or a vector and a scalar.
template <class A, class B> inline constexpr bool vector_pair = false;
template <operand A, operand B>
    requires(is_vector<A> && is_vector<B>)
inline constexpr bool vector_pair<A, B> = same<vector_of<A>, vector_of<B>>;
template <operand A, operand B>
    requires(is_vector<A> != is_vector<B>)
inline constexpr bool vector_pair<A, B> = true;
template <class A, class B> struct pair_type { typedef vector_of<A> type; };
template <class A, class B> requires(!is_vector<A>) struct pair_type<A, B> { typedef vector_of<B> type; };
template <class A, class B> using pair_vector = typename pair_type<A, B>::type;

// f applied to each component. Written out, since a loop would not be unrolled at every optimisation level.
template <class R, int N, class F> inline metal::vec<R, N> map(F f) {
    metal::vec<R, N> out;
    out.data[0] = f(0);
    out.data[1] = f(1);
    if constexpr (N > 2) out.data[2] = f(2);
    if constexpr (N > 3) out.data[3] = f(3);
    return out;
}

// A vector operand as a vector of its own; a scalar operand spread over one.
template <class V, class A> inline V spread(const A& a) {
    if constexpr (is_vector<A>) return static_cast<V>(a);
    else return V(static_cast<component_of<V>>(a));
}

}  // namespace metal_sim

namespace metal {

#define METAL_SIM_VECTOR_MEMBERS(N)                                                                       \
    vec() = default;                                                                                      \
    vec(const vec& other) { assign(other); }                                                              \
    vec& operator=(const vec& other) {                                                                    \
        assign(other);                                                                                    \
        return *this;                                                                                     \
    }                                                                                                     \
    template <class A> requires(metal_sim::is_scalar<A>) vec(A value) {                                   \
        const T each = static_cast<T>(value);                                                             \
        data[0] = data[1] = each;                                                                         \
        if constexpr (N > 2) data[2] = each;                                                              \
        if constexpr (N > 3) data[3] = each;                                                              \
    }                                                                                                     \
    template <class U> requires(!metal_sim::same<T, U>) explicit vec(const vec<U, N>& other) {            \
        assign(other);                                                                                    \
    }                                                                                                     \
    template <class... A>                                                                                 \
        requires(sizeof...(A) > 1 && (metal_sim::components<A> + ...) == N)                               \
    vec(const A&... parts) {                                                                              \
        int at = 0;                                                                                       \
        (append(parts, at), ...);                                                                         \
    }                                                                                                     \
    T& operator[](int i) { return data[i]; }                                                              \
    const T& operator[](int i) const { return data[i]; }                                                  \
    template <class A> vec& operator+=(const A& a) { return *this = *this + a; }                          \
    template <class A> vec& operator-=(const A& a) { return *this = *this - a; }                          \
    template <class A> vec& operator*=(const A& a) { return *this = *this * a; }                          \
    template <class A> vec& operator/=(const A& a) { return *this = *this / a; }                          \
    template <class A> vec& operator%=(const A& a) { return *this = *this % a; }                          \
    template <class A> vec& operator&=(const A& a) { return *this = *this & a; }                          \
    template <class A> vec& operator|=(const A& a) { return *this = *this | a; }                          \
    template <class A> vec& operator^=(const A& a) { return *this = *this ^ a; }                          \
    template <class A> vec& operator<<=(const A& a) { return *this = *this << a; }                        \
    template <class A> vec& operator>>=(const A& a) { return *this = *this >> a; }                        \
                                                                                                          \
  private:                                                                                                \
    template <class U> void assign(const vec<U, N>& other) {                                              \
        data[0] = static_cast<T>(other.data[0]);                                                          \
        data[1] = static_cast<T>(other.data[1]);                                                          \
        if constexpr (N > 2) data[2] = static_cast<T>(other.data[2]);                                     \
        if constexpr (N > 3) data[3] = static_cast<T>(other.data[3]);                                     \
    }                                                                                                     \
    template <class A> void append(const A& part, int& at) {                                              \
        for (int i = 0; i < metal_sim::components<A>; i++)                                                \
            data[at++] = static_cast<T>(metal_sim::component(part, i));                                   \
    }

#define METAL_SIM_PAIR(n, a, i, b, j) metal_sim::swizzle<T, n, i, j> a##b;
#define METAL_SIM_PAIRS_OF(n, a, i) METAL_SIM_PAIR(n, a, i, x, 0) METAL_SIM_PAIR(n, a, i, y, 1)
#define METAL_SIM_PAIRS_OF_3(n, a, i) METAL_SIM_PAIRS_OF(n, a, i) METAL_SIM_PAIR(n, a, i, z, 2)
#define METAL_SIM_PAIRS_OF_4(n, a, i) METAL_SIM_PAIRS_OF_3(n, a, i) METAL_SIM_PAIR(n, a, i, w, 3)

template <class T> struct alignas(2 * sizeof(T)) vec<T, 2> {
    union {
        T data[2];
        struct { T x, y; };
        struct { T r, g; };
        METAL_SIM_PAIRS_OF(2, x, 0)
        METAL_SIM_PAIRS_OF(2, y, 1)
    };
    METAL_SIM_VECTOR_MEMBERS(2)
};

// Three components take the room of four, as in Metal.
template <class T> struct alignas(4 * sizeof(T)) vec<T, 3> {
    union {
        T data[3];
        struct { T x, y, z; };
        struct { T r, g, b; };
        METAL_SIM_PAIRS_OF_3(3, x, 0)
        METAL_SIM_PAIRS_OF_3(3, y, 1)
        METAL_SIM_PAIRS_OF_3(3, z, 2)
        metal_sim::swizzle<T, 3, 0, 1, 2> xyz, rgb;
        metal_sim::swizzle<T, 3, 2, 1, 0> zyx;
        metal_sim::swizzle<T, 3, 1, 2, 0> yzx;
        metal_sim::swizzle<T, 3, 2, 0, 1> zxy;
        metal_sim::swizzle<T, 3, 0, 0, 0> xxx;
        metal_sim::swizzle<T, 3, 1, 1, 1> yyy;
        metal_sim::swizzle<T, 3, 2, 2, 2> zzz;
    };
    METAL_SIM_VECTOR_MEMBERS(3)
};

template <class T> struct alignas(4 * sizeof(T)) vec<T, 4> {
    union {
        T data[4];
        struct { T x, y, z, w; };
        struct { T r, g, b, a; };
        METAL_SIM_PAIRS_OF_4(4, x, 0)
        METAL_SIM_PAIRS_OF_4(4, y, 1)
        METAL_SIM_PAIRS_OF_4(4, z, 2)
        METAL_SIM_PAIRS_OF_4(4, w, 3)
        metal_sim::swizzle<T, 4, 0, 1, 2> xyz, rgb;
        metal_sim::swizzle<T, 4, 1, 2, 3> yzw;
        metal_sim::swizzle<T, 4, 2, 1, 0> zyx;
        metal_sim::swizzle<T, 4, 1, 2, 0> yzx;
        metal_sim::swizzle<T, 4, 2, 0, 1> zxy;
        metal_sim::swizzle<T, 4, 0, 1, 2, 3> xyzw, rgba;
        metal_sim::swizzle<T, 4, 3, 2, 1, 0> wzyx;
        metal_sim::swizzle<T, 4, 2, 1, 0, 3> zyxw;
        metal_sim::swizzle<T, 4, 1, 2, 3, 0> yzwx;
        metal_sim::swizzle<T, 4, 2, 3, 0, 1> zwxy;
        metal_sim::swizzle<T, 4, 3, 0, 1, 2> wxyz;
        metal_sim::swizzle<T, 4, 1, 0, 3, 2> yxwz;
        metal_sim::swizzle<T, 4, 0, 2, 1, 3> xzyw;
        metal_sim::swizzle<T, 4, 0, 1, 0, 1> xyxy;
        metal_sim::swizzle<T, 4, 2, 3, 2, 3> zwzw;
        metal_sim::swizzle<T, 4, 0, 0, 1, 1> xxyy;
        metal_sim::swizzle<T, 4, 2, 2, 3, 3> zzww;
        metal_sim::swizzle<T, 4, 0, 0, 0, 0> xxxx;
        metal_sim::swizzle<T, 4, 1, 1, 1, 1> yyyy;
        metal_sim::swizzle<T, 4, 2, 2, 2, 2> zzzz;
        metal_sim::swizzle<T, 4, 3, 3, 3, 3> wwww;
    };
    METAL_SIM_VECTOR_MEMBERS(4)
};

#undef METAL_SIM_VECTOR_MEMBERS
#undef METAL_SIM_PAIR
#undef METAL_SIM_PAIRS_OF
#undef METAL_SIM_PAIRS_OF_3
#undef METAL_SIM_PAIRS_OF_4

// A vector aligned like its component: what packed_float3 and its kin are in memory.
template <class T, int N> struct packed_vec {
    T data[N];
    packed_vec() = default;
    packed_vec(const vec<T, N>& value) {
        for (int i = 0; i < N; i++) data[i] = value.data[i];
    }
    operator vec<T, N>() const { return metal_sim::map<T, N>([&](int i) { return data[i]; }); }
    T& operator[](int i) { return data[i]; }
    const T& operator[](int i) const { return data[i]; }
};

}  // namespace metal

namespace metal_sim {

// The operators are found through the argument types, so they live beside vec and beside swizzle.
#define METAL_SIM_VECTOR_OPERATOR(op)                                                                        \
    template <class A, class B> requires(vector_pair<A, B>) inline auto operator op(const A& a, const B& b) { \
        typedef pair_vector<A, B> V;                                                                         \
        const V left = spread<V>(a), right = spread<V>(b);                                                   \
        return map<component_of<V>, components<V>>(                                                          \
            [&](int i) { return static_cast<component_of<V>>(left.data[i] op right.data[i]); });             \
    }
METAL_SIM_VECTOR_OPERATOR(+)
METAL_SIM_VECTOR_OPERATOR(-)
METAL_SIM_VECTOR_OPERATOR(*)
METAL_SIM_VECTOR_OPERATOR(/)
METAL_SIM_VECTOR_OPERATOR(%)
METAL_SIM_VECTOR_OPERATOR(&)
METAL_SIM_VECTOR_OPERATOR(|)
METAL_SIM_VECTOR_OPERATOR(^)
METAL_SIM_VECTOR_OPERATOR(<<)
METAL_SIM_VECTOR_OPERATOR(>>)
#undef METAL_SIM_VECTOR_OPERATOR

#define METAL_SIM_VECTOR_COMPARISON(op)                                                                       \
    template <class A, class B> requires(vector_pair<A, B>) inline auto operator op(const A& a, const B& b) { \
        typedef pair_vector<A, B> V;                                                                          \
        const V left = spread<V>(a), right = spread<V>(b);                                                    \
        return map<bool, components<V>>([&](int i) { return left.data[i] op right.data[i]; });                \
    }
METAL_SIM_VECTOR_COMPARISON(==)
METAL_SIM_VECTOR_COMPARISON(!=)
METAL_SIM_VECTOR_COMPARISON(<)
METAL_SIM_VECTOR_COMPARISON(<=)
METAL_SIM_VECTOR_COMPARISON(>)
METAL_SIM_VECTOR_COMPARISON(>=)
METAL_SIM_VECTOR_COMPARISON(&&)
METAL_SIM_VECTOR_COMPARISON(||)
#undef METAL_SIM_VECTOR_COMPARISON

template <class A> requires(is_vector<A>) inline vector_of<A> operator-(const A& a) {
    const vector_of<A> v = a;
    return map<component_of<A>, components<A>>([&](int i) { return static_cast<component_of<A>>(-v.data[i]); });
}
template <class A> requires(is_vector<A>) inline vector_of<A> operator~(const A& a) {
    const vector_of<A> v = a;
    return map<component_of<A>, components<A>>([&](int i) { return static_cast<component_of<A>>(~v.data[i]); });
}
template <class A> requires(is_vector<A>) inline auto operator!(const A& a) {
    const vector_of<A> v = a;
    return map<bool, components<A>>([&](int i) { return !v.data[i]; });
}

}  // namespace metal_sim

namespace metal {
using metal_sim::operator+;
using metal_sim::operator-;
using metal_sim::operator*;
using metal_sim::operator/;
using metal_sim::operator%;
using metal_sim::operator&;
using metal_sim::operator|;
using metal_sim::operator^;
using metal_sim::operator<<;
using metal_sim::operator>>;
using metal_sim::operator==;
using metal_sim::operator!=;
using metal_sim::operator<;
using metal_sim::operator<=;
using metal_sim::operator>;
using metal_sim::operator>=;
using metal_sim::operator&&;
using metal_sim::operator||;
using metal_sim::operator~;
using metal_sim::operator!;

#define METAL_SIM_VECTORS(type, name)  \
    typedef vec<type, 2> name##2;      \
    typedef vec<type, 3> name##3;      \
    typedef vec<type, 4> name##4;      \
    typedef packed_vec<type, 2> packed_##name##2; \
    typedef packed_vec<type, 3> packed_##name##3; \
    typedef packed_vec<type, 4> packed_##name##4;
METAL_SIM_VECTORS(bool, bool)
METAL_SIM_VECTORS(char, char)
METAL_SIM_VECTORS(uchar, uchar)
METAL_SIM_VECTORS(short, short)
METAL_SIM_VECTORS(ushort, ushort)
METAL_SIM_VECTORS(int, int)
METAL_SIM_VECTORS(uint, uint)
METAL_SIM_VECTORS(long, long)
METAL_SIM_VECTORS(ulong, ulong)
METAL_SIM_VECTORS(half, half)
METAL_SIM_VECTORS(bfloat, bfloat)
METAL_SIM_VECTORS(float, float)
#undef METAL_SIM_VECTORS

}  // namespace metal

using namespace metal;
