// Operations among the lanes of a simdgroup, and of a quad (four neighbouring lanes).
//
// Only lanes that have not returned take part. A value taken from a lane that takes no part is undefined in Metal;
// here it is poison: every bit set, a NaN as a float. Where Metal says that a lane keeps its own value (shuffles up and
// down past the end), it does. The order of a simd_sum is unspecified in Metal; here it is a balanced tree over
// neighbours, (0 + 1) + (2 + 3) ..., the same in every lane.

namespace metal_sim {

constexpr uint32_t slot_bytes = 32;

template <class T> struct exchanged {
    exchange_page& page;
    uint64_t step;
    uint32_t lane;

    bool took_part(uint32_t from) const { return from < simd_width && (page.active >> from & 1u); }
    T at(uint32_t from) const {
        T value;
        if (took_part(from)) __builtin_memcpy(&value, page.deposit + from * slot_bytes, sizeof(T));
        else __builtin_memset(&value, 0xff, sizeof(T));
        return value;
    }
    T own() const { return at(lane); }
};

template <class T> inline exchanged<T> exchange(const T& value, const char* operation, uint32_t line, const char* file) {
    static_assert(sizeof(T) <= slot_bytes, "the value is too large for a simdgroup operation");
    lane* self = current;
    const uint64_t step = self->in_simdgroup->step;
    exchange_page& page = self->in_simdgroup->page[step & 1];
    const uint32_t index = lane_index(self);
    __builtin_memcpy(page.deposit + index * slot_bytes, &value, sizeof(T));
    stop(self, stop_scope::simd, operation, line, file);
    return {page, step, index};
}

// The result that all lanes share: computed by the first that resumes.
template <class R, class T, class F> inline R once(const exchanged<T>& e, F compute) {
    static_assert(sizeof(R) <= sizeof(e.page.result), "the result of a simdgroup operation is too large");
    R result;
    if (e.page.result_step != e.step + 1) {
        result = compute();
        __builtin_memcpy(e.page.result, &result, sizeof(R));
        e.page.result_step = e.step + 1;
    } else {
        __builtin_memcpy(&result, e.page.result, sizeof(R));
    }
    return result;
}

// Balanced tree over lanes first ... first + width - 1, left before right; absent lanes are passed over.
template <class T, class F> inline T tree(const exchanged<T>& e, uint32_t first, uint32_t width, F combine) {
    T value[simd_width];
    bool present[simd_width];
    for (uint32_t i = 0; i < width; i++) {
        value[i] = e.at(first + i);
        present[i] = e.took_part(first + i);
    }
    for (uint32_t half_width = 1; half_width < width; half_width *= 2) {
        for (uint32_t i = 0; i + half_width < width; i += 2 * half_width) {
            if (!present[i + half_width]) continue;
            value[i] = present[i] ? combine(value[i], value[i + half_width]) : value[i + half_width];
            present[i] = true;
        }
    }
    return value[0];
}

// Each lane's combination of the lanes before it (and itself, when inclusive), ascending.
template <class T, class F> inline T prefix(const exchanged<T>& e, bool inclusive, T start, F combine) {
    T value = start;
    for (uint32_t i = 0; i < e.lane + (inclusive ? 1 : 0); i++)
        if (e.took_part(i)) value = combine(value, e.at(i));
    return value;
}

}  // namespace metal_sim

namespace metal {

#define METAL_SIM_REDUCTION(name, expression)                                                        \
    template <class T> inline T simd_##name(T value, METAL_SIM_AT) {                                 \
        const auto e = metal_sim::exchange(value, "simd_" #name, line, file);                        \
        return metal_sim::once<T>(e, [&] {                                                           \
            return metal_sim::tree(e, 0, metal_sim::simd_width, [](T a, T b) { return T(expression); }); \
        });                                                                                          \
    }                                                                                                \
    template <class T> inline T quad_##name(T value, METAL_SIM_AT) {                                 \
        const auto e = metal_sim::exchange(value, "quad_" #name, line, file);                        \
        return metal_sim::tree(e, e.lane & ~3u, 4, [](T a, T b) { return T(expression); });          \
    }
METAL_SIM_REDUCTION(sum, a + b)
METAL_SIM_REDUCTION(product, a * b)
METAL_SIM_REDUCTION(min, min(a, b))
METAL_SIM_REDUCTION(max, max(a, b))
METAL_SIM_REDUCTION(and, a & b)
METAL_SIM_REDUCTION(or, a | b)
METAL_SIM_REDUCTION(xor, a ^ b)
#undef METAL_SIM_REDUCTION

#define METAL_SIM_PREFIX(kind, inclusive, name, start, expression)                                          \
    template <class T> inline T simd_prefix_##kind##_##name(T value, METAL_SIM_AT) {                        \
        const auto e = metal_sim::exchange(value, "simd_prefix_" #kind "_" #name, line, file);              \
        return metal_sim::prefix<T>(e, inclusive, T(start), [](T a, T b) { return T(expression); });        \
    }
METAL_SIM_PREFIX(inclusive, true, sum, 0, a + b)
METAL_SIM_PREFIX(exclusive, false, sum, 0, a + b)
METAL_SIM_PREFIX(inclusive, true, product, 1, a * b)
METAL_SIM_PREFIX(exclusive, false, product, 1, a * b)
#undef METAL_SIM_PREFIX

// Shuffles. `from` is the lane whose value is taken, `inside` whether Metal defines it.
#define METAL_SIM_SHUFFLE(name, from, inside)                                          \
    template <class T> inline T simd_##name(T value, ushort by, METAL_SIM_AT) {        \
        const auto e = metal_sim::exchange(value, "simd_" #name, line, file);          \
        const uint32_t width = metal_sim::simd_width, base = 0, self = e.lane;         \
        return inside ? e.at(base + (from)) : e.own();                                 \
    }                                                                                  \
    template <class T> inline T quad_##name(T value, ushort by, METAL_SIM_AT) {        \
        const auto e = metal_sim::exchange(value, "quad_" #name, line, file);          \
        const uint32_t width = 4, base = e.lane & ~3u, self = e.lane & 3u;             \
        return inside ? e.at(base + (from)) : e.own();                                 \
    }
METAL_SIM_SHUFFLE(shuffle, by < width ? by : metal_sim::simd_width, true)
METAL_SIM_SHUFFLE(broadcast, by < width ? by : metal_sim::simd_width, true)
METAL_SIM_SHUFFLE(shuffle_xor, (self ^ by) < width ? (self ^ by) : metal_sim::simd_width, true)
METAL_SIM_SHUFFLE(shuffle_down, self + by, (self + by < width))
METAL_SIM_SHUFFLE(shuffle_up, self - by, (self >= by))
METAL_SIM_SHUFFLE(shuffle_rotate_down, (self + by) % width, true)
METAL_SIM_SHUFFLE(shuffle_rotate_up, (self + width - by % width) % width, true)
#undef METAL_SIM_SHUFFLE

template <class T> inline T simd_broadcast_first(T value, METAL_SIM_AT) {
    const auto e = metal_sim::exchange(value, "simd_broadcast_first", line, file);
    return e.at(static_cast<uint32_t>(__builtin_ctz(e.page.active)));
}

// shuffle_and_fill: lanes past the end continue in `fill`, whose lane 0 follows the last (down) or whose last precedes
// lane 0 (up).
template <class T> inline T simd_shuffle_and_fill_down(T value, T fill, ushort by, METAL_SIM_AT) {
    const auto values = metal_sim::exchange(value, "simd_shuffle_and_fill_down", line, file);
    const uint32_t from = values.lane + by;
    const T inside = values.at(from % metal_sim::simd_width);
    const auto fills = metal_sim::exchange(fill, "simd_shuffle_and_fill_down", line, file);
    return from < metal_sim::simd_width ? inside : fills.at(from - metal_sim::simd_width);
}
template <class T> inline T simd_shuffle_and_fill_up(T value, T fill, ushort by, METAL_SIM_AT) {
    const auto values = metal_sim::exchange(value, "simd_shuffle_and_fill_up", line, file);
    const uint32_t from = values.lane + metal_sim::simd_width - by;
    const T inside = values.at(from % metal_sim::simd_width);
    const auto fills = metal_sim::exchange(fill, "simd_shuffle_and_fill_up", line, file);
    return from >= metal_sim::simd_width ? inside : fills.at(from);
}

// The set of lanes for which a condition holds.
class simd_vote {
  public:
    typedef ulong vote_t;
    explicit simd_vote(vote_t lanes = 0) : lanes_(lanes) {}
    explicit operator vote_t() const { return lanes_; }
    bool any() const { return lanes_ != 0; }
    bool all() const { return lanes_ == 0xffffffffu; }

  private:
    vote_t lanes_;
};

inline simd_vote simd_ballot(bool condition, METAL_SIM_AT) {
    const auto e = metal_sim::exchange(condition, "simd_ballot", line, file);
    const uint32_t lanes = metal_sim::once<uint32_t>(e, [&] {
        uint32_t set = 0;
        for (uint32_t i = 0; i < metal_sim::simd_width; i++) set |= e.took_part(i) && e.at(i) ? 1u << i : 0u;
        return set;
    });
    return simd_vote(lanes);
}
inline simd_vote simd_active_threads_mask(METAL_SIM_AT) { return simd_ballot(true, line, file); }
inline bool simd_any(bool condition, METAL_SIM_AT) { return simd_ballot(condition, line, file).any(); }
inline bool simd_all(bool condition, METAL_SIM_AT) { return !simd_ballot(!condition, line, file).any(); }
inline bool simd_is_first(METAL_SIM_AT) {
    const auto e = metal_sim::exchange(true, "simd_is_first", line, file);
    return e.lane == static_cast<uint32_t>(__builtin_ctz(e.page.active));
}

}  // namespace metal
