// Four consecutive elements, widened to float32.
//
// The loads are scalar in the source: a row-contiguous array may be a view that starts at any element, so a vector
// type's alignment cannot be promised. Compilers for which element alignment is enough merge them; for CUDA, where it is
// not, cuda.h overloads this for plain pointers.
template <typename Pointer>
inline float4 load4(Pointer p) {
  return float4(float(p[0]), float(p[1]), float(p[2]), float(p[3]));
}
