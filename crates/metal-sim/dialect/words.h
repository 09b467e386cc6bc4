// Words of the Metal language that mean nothing to a host compiler. Last, so that the dialect's own code is free of them.
//
// `threadgroup` declarations of a body have been rewritten before the compiler sees them (see shared() in group.h);
// what remains of that word are pointers to such memory.

#define device
#define constant
#define thread
#define threadgroup
#define METAL_FUNC inline
#define MTL_CONST static constexpr const
#define MLX_MTL_CONST static constexpr const
#define MLX_MTL_PRAGMA_UNROLL
#define __METAL__ 1
#define __METAL_VERSION__ 310
#define __METAL_SIM__ 1
#define __HAVE_BFLOAT__ 1
