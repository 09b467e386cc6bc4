// The 8x8 matrices of a simdgroup. A lane holds two adjacent elements of one row, and which they are is the hardware's choice.
#if defined(__METAL_VERSION__)
#include <metal_simdgroup_matrix>
#endif

// Row of an 8x8 matrix whose elements (row, column) and (row, column + 1) the lane holds.
inline int fragment_row(int lane) {
  return ((lane >> 4) & 1) * 4 + ((lane >> 2) & 1) * 2 + ((lane >> 1) & 1);
}

// The even column that goes with fragment_row.
inline int fragment_column(int lane) {
  return ((lane >> 3) & 1) * 4 + (lane & 1) * 2;
}
