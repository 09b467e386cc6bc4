//! Operands of host operations as the CPU code takes them.

use half::{bf16, f16};
use mlx_kernels_cpu::{Floats, FloatsMut};
use mlx_op::{HostError, HostInput, HostOutput};
use mlx_rs::Dtype;

/// Whether operations of this crate take this element type.
pub(crate) fn is_supported(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16)
}

/// The elements of a float operand.
pub(crate) fn floats<'a>(input: &'a HostInput<'_>) -> Result<Floats<'a>, HostError> {
    match input.dtype() {
        Dtype::Float16 => Ok(Floats::F16(input.as_slice::<f16>()?)),
        Dtype::Bfloat16 => Ok(Floats::Bf16(input.as_slice::<bf16>()?)),
        _ => Ok(Floats::F32(input.as_slice::<f32>()?)),
    }
}

/// The elements of a float output.
pub(crate) fn floats_mut<'a>(output: &'a mut HostOutput<'_>) -> Result<FloatsMut<'a>, HostError> {
    match output.dtype() {
        Dtype::Float16 => Ok(FloatsMut::F16(output.as_mut_slice::<f16>()?)),
        Dtype::Bfloat16 => Ok(FloatsMut::Bf16(output.as_mut_slice::<bf16>()?)),
        _ => Ok(FloatsMut::F32(output.as_mut_slice::<f32>()?)),
    }
}
