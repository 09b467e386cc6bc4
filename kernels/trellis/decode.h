// Values and weights of states, by DECODE.
//
// Selections 0 to 3 have one exact value, by four ways, and round value times scale to bfloat16; 5 and 6 leave the product in
// float32; 4 decodes nothing. Three further ways to the values of 6 are chosen by launches: DECODE_CONVERTED,
// DECODE_TABLE_UNREFINED and DECODE_TABLE_CODES. A table of codes has entries of type short, all others of float.

// Entries of a threadgroup's table of values: all states, or one where no table is read.
template <int DECODE, int L>
constexpr int table_entries() {
  return DECODE == DECODE_TABLE_SHARED || DECODE == DECODE_TABLE_UNREFINED || DECODE == DECODE_TABLE_CODES ? 1 << L : 1;
}

// The type of the entries.
template <int DECODE>
struct TableEntry {
  using type = float;
};
template <>
struct TableEntry<DECODE_TABLE_CODES> {
  using type = short;
};

// Fills the table, if DECODE reads one, and waits for it. Every thread of the threadgroup calls this.
template <int DECODE, int L, typename Entry>
inline void fill_table(threadgroup Entry* shared_table, const device float* table, uint thread_index, uint threads) {
  if (table_entries<DECODE, L>() > 1) {
    for (uint state = thread_index; state < (1u << uint(L)); state += threads) {
      if (DECODE == DECODE_TABLE_CODES) {
        shared_table[state] = Entry(converted_code(state));
      } else {
        shared_table[state] = Entry(DECODE == DECODE_TABLE_SHARED ? table[state] : unrefined_value(state));
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// A state's value. `table` holds the exact values of all states, `shared_table` what fill_table put there.
template <int DECODE, typename Entry>
inline float decoded_value(uint state, const device float* table, const threadgroup Entry* shared_table) {
  if (DECODE == DECODE_DIVIDE) {
    return divided_value(state);
  }
  if (DECODE == DECODE_REFINED || DECODE == DECODE_REFINED_FLOAT) {
    return refined_value(state);
  }
  if (DECODE == DECODE_TABLE_SHARED || DECODE == DECODE_TABLE_UNREFINED) {
    return float(shared_table[state]);
  }
  if (DECODE == DECODE_TABLE_CODES) {
    return float(shared_table[state]) * code_step();
  }
  if (DECODE == DECODE_TABLE_DEVICE) {
    return table[state];
  }
  if (DECODE == DECODE_NONE) {
    return float(state);
  }
  if (DECODE == DECODE_CONVERTED) {
    return converted_code(state) * code_step();
  }
  return unrefined_value(state);
}

// Value times scale, rounded to bfloat16 for the selections with exact values; or the integer code.
template <int DECODE, typename Entry>
inline float decoded_weight(uint state, float scale, const device float* table, const threadgroup Entry* shared_table) {
  if (DECODE == DECODE_FACTORED) {
    return integer_code(state);
  }
  const float weight = decoded_value<DECODE>(state, table, shared_table) * scale;
  return DECODE <= DECODE_TABLE_DEVICE ? round_to_bfloat(weight) : weight;
}

// A sum of weights times activations; one of integer codes still has to be scaled.
template <int DECODE>
inline float completed_sum(float sum, float scale) {
  return DECODE == DECODE_FACTORED ? sum * (scale * code_step()) : sum;
}
