//! The C interface of `primitive.cpp`.

use std::ffi::{c_char, c_void};

/// One operand of a running node; mirrors `mlx_op_tensor`.
#[repr(C)]
pub(super) struct RawTensor {
    pub data: *mut c_void,
    pub shape: *const i32,
    pub strides: *const i64,
    pub rank: usize,
    pub dtype: mlx_sys::mlx_dtype,
}

/// Runs the closure behind `context`; null or an error message from [`mlx_op_copy_message`].
pub(super) type Call = unsafe extern "C" fn(
    context: *mut c_void,
    inputs: *const RawTensor,
    input_count: usize,
    outputs: *const RawTensor,
    output_count: usize,
) -> *mut c_char;

/// Drops the closure behind `context`.
pub(super) type Drop = unsafe extern "C" fn(context: *mut c_void);

unsafe extern "C" {
    pub(super) fn mlx_op_host_apply(
        name: *const c_char,
        inputs: *const mlx_sys::mlx_array,
        input_count: usize,
        shapes: *const i32,
        ranks: *const usize,
        dtypes: *const mlx_sys::mlx_dtype,
        output_count: usize,
        updated: usize,
        context: *mut c_void,
        call: Call,
        drop: Drop,
        stream: mlx_sys::mlx_stream,
        results: *mut mlx_sys::mlx_array,
    ) -> *mut c_char;

    pub(super) fn mlx_op_free_message(message: *mut c_char);

    pub(super) fn mlx_op_copy_message(text: *const c_char, length: usize) -> *mut c_char;
}
