/* Force-included before every mlx-c source and header on Linux.
 *
 * mlx-c's half.h names its two 16-bit types, and declares the functions that use them, on Arm only;
 * mlx-rs calls those functions everywhere. This header takes half.h's place on every architecture:
 * C++ sees MLX's own classes, C (and so bindgen) sees what mlx-rs expects, a one-field struct over
 * u16 for float16 (bindgen's rendering of _Float16) and a plain u16 for bfloat16. */
#ifndef MLX_HALF_H
#define MLX_HALF_H

#define HAS_FLOAT16
#define HAS_BFLOAT16

#ifdef __cplusplus
#include "std_format.h"

#include "mlx/types/half_types.h"
#ifndef __ARM_FEATURE_FP16_SCALAR_ARITHMETIC
using mlx::core::float16_t;
#endif
#ifndef __ARM_FEATURE_BF16
using mlx::core::bfloat16_t;
#endif
#else
typedef _Float16 float16_t;
typedef unsigned short bfloat16_t;
#endif

#endif
