// The 8 x 8 simdgroup matrix: two elements a lane, in adjacent columns of one row.
//
// With lane = b4 b3 b2 b1 b0 in binary: row = 4 b4 + 2 b2 + b1, first column = 4 b3 + 2 b0. Products are formed in
// float with one fused multiply-add a term, terms ascending, starting from the accumulator; the hardware's order is
// unspecified.

namespace metal {

template <class T, int Columns, int Rows> struct simdgroup_matrix {
    static_assert(Columns == 8 && Rows == 8, "simdgroup matrices are 8 x 8");

    // Uninitialised in Metal: poison here. A body that sets both elements pays nothing for it.
    simdgroup_matrix() { __builtin_memset(&elements_, 0xff, sizeof(elements_)); }
    // A diagonal matrix.
    explicit simdgroup_matrix(T diagonal);

    vec<T, 2>& thread_elements() { return elements_; }
    const vec<T, 2>& thread_elements() const { return elements_; }

  private:
    vec<T, 2> elements_;
};

typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

}  // namespace metal

namespace metal_sim {

inline uint32_t fragment_row(uint32_t lane) { return (lane >> 4 & 1u) * 4 + (lane >> 2 & 1u) * 2 + (lane >> 1 & 1u); }
inline uint32_t fragment_column(uint32_t lane) { return (lane >> 3 & 1u) * 4 + (lane & 1u) * 2; }

// The operands of one product as they lie in a page's deposit, and its result.
struct product_operands { float a[8][8], b[8][8], c[8][8]; };
struct product_result { float d[8][8]; };
static_assert(sizeof(product_operands) <= sizeof(exchange_page::deposit), "the operands fit the page");
static_assert(sizeof(product_result) <= sizeof(exchange_page::result), "the result fits the page");

inline void multiply_accumulate(const product_operands& in, product_result& out) {
    for (int i = 0; i < 8; i++) {
        float row[8];
        for (int j = 0; j < 8; j++) row[j] = in.c[i][j];
        for (int t = 0; t < 8; t++)
            for (int j = 0; j < 8; j++) row[j] = __builtin_fmaf(in.a[i][t], in.b[t][j], row[j]);
        for (int j = 0; j < 8; j++) out.d[i][j] = row[j];
    }
}

template <class D, class A, class B, class C>
inline void matrix_operation(metal::simdgroup_matrix<D, 8, 8>& d, const metal::simdgroup_matrix<A, 8, 8>& a,
                             const metal::simdgroup_matrix<B, 8, 8>& b, C c0, C c1, const char* operation,
                             uint32_t line, const char* file) {
    lane* self = current;
    const uint64_t step = self->in_simdgroup->step;
    exchange_page& page = self->in_simdgroup->page[step & 1];
    product_operands& in = *reinterpret_cast<product_operands*>(page.deposit);
    product_result& out = *reinterpret_cast<product_result*>(page.result);
    const uint32_t r = fragment_row(lane_index(self)), c = fragment_column(lane_index(self));
    in.a[r][c] = static_cast<float>(a.thread_elements().data[0]);
    in.a[r][c + 1] = static_cast<float>(a.thread_elements().data[1]);
    in.b[r][c] = static_cast<float>(b.thread_elements().data[0]);
    in.b[r][c + 1] = static_cast<float>(b.thread_elements().data[1]);
    in.c[r][c] = static_cast<float>(c0);
    in.c[r][c + 1] = static_cast<float>(c1);
    stop(self, stop_scope::matrix, operation, line, file);
    if (page.result_step != step + 1) {
        multiply_accumulate(in, out);
        page.result_step = step + 1;
    }
    d.thread_elements().data[0] = static_cast<D>(out.d[r][c]);
    d.thread_elements().data[1] = static_cast<D>(out.d[r][c + 1]);
}

}  // namespace metal_sim

namespace metal {

template <class T, int Columns, int Rows> inline simdgroup_matrix<T, Columns, Rows>::simdgroup_matrix(T diagonal) {
    const uint32_t lane = metal_sim::lane_index(metal_sim::current);
    const uint32_t r = metal_sim::fragment_row(lane), c = metal_sim::fragment_column(lane);
    elements_ = vec<T, 2>(r == c ? diagonal : T(0), r == c + 1 ? diagonal : T(0));
}

template <class T, int Columns, int Rows> inline simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(T value) {
    simdgroup_matrix<T, Columns, Rows> m;
    m.thread_elements() = vec<T, 2>(value, value);
    return m;
}

// d = a b + c
template <class D, class A, class B, class C>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                          const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<C, 8, 8>& c,
                                          METAL_SIM_AT) {
    metal_sim::matrix_operation(d, a, b, c.thread_elements().data[0], c.thread_elements().data[1],
                                "simdgroup_multiply_accumulate", line, file);
}

// d = a b
template <class D, class A, class B>
inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                               const simdgroup_matrix<B, 8, 8>& b, METAL_SIM_AT) {
    metal_sim::matrix_operation(d, a, b, 0.0f, 0.0f, "simdgroup_multiply", line, file);
}

// Loads and stores touch a lane's own two elements and order nothing: data of other lanes needs a barrier before.
template <class T, class U>
inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& d, const U* source, ulong elements_per_row = 8,
                           ulong2 origin = ulong2(0, 0), bool transpose = false) {
    static_assert(metal_sim::same<metal_sim::bare<U>, T>, "simdgroup_load takes a pointer to the matrix's element type");
    const uint32_t lane = metal_sim::lane_index(metal_sim::current);
    const ulong r = metal_sim::fragment_row(lane), c = metal_sim::fragment_column(lane);
    for (ulong e = 0; e < 2; e++) {
        const ulong row = transpose ? c + e : r, column = transpose ? r : c + e;
        d.thread_elements().data[e] = source[(origin.y + row) * elements_per_row + origin.x + column];
    }
}

template <class T>
inline void simdgroup_store(const simdgroup_matrix<T, 8, 8>& a, T* destination, ulong elements_per_row = 8,
                            ulong2 origin = ulong2(0, 0), bool transpose = false) {
    const uint32_t lane = metal_sim::lane_index(metal_sim::current);
    const ulong r = metal_sim::fragment_row(lane), c = metal_sim::fragment_column(lane);
    for (ulong e = 0; e < 2; e++) {
        const ulong row = transpose ? c + e : r, column = transpose ? r : c + e;
        destination[(origin.y + row) * elements_per_row + origin.x + column] = a.thread_elements().data[e];
    }
}

}  // namespace metal
