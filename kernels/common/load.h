// Four consecutive elements, widened to float32.
//
// The loads are scalar in the source: a row-contiguous array may be a view that starts at any element, so a vector
// type's alignment cannot be promised. Compilers for which element alignment is enough merge them; for CUDA, where it is
// not, cuda.h overloads this for plain pointers.
template <typename Pointer>
inline float4 load4(Pointer p) {
  return float4(float(p[0]), float(p[1]), float(p[2]), float(p[3]));
}

// Eight consecutive elements, for kernels that find out once, not for each load, whether vectors may be read from p on: at
// multiples of eight elements from there. Elsewhere than on CUDA every address will do.
template <typename Pointer>
inline bool holds_vectors(Pointer) {
  return true;
}
template <bool VECTORS, typename Pointer>
inline void load8(Pointer p, thread float4& low, thread float4& high) {
  low = load4(p);
  high = load4(p + 4);
}
