// UNROLL before a loop whose trip count is a compile-time constant: the loop disappears, and arrays that it indexes
// stay in registers. Each compiler spells the request differently.
#if defined(__METAL_VERSION__)
#define UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__CUDACC__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif
