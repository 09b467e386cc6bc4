//! The stream that host operations run on.

use mlx_rs::Stream;

/// The stream chosen with `mlx_rs::with_stream` if it is a CPU stream, else the default CPU stream.
pub(super) fn cpu() -> Stream {
    mlx_rs::thread_local_default_stream()
        .filter(is_cpu)
        .unwrap_or_else(Stream::cpu)
}

fn is_cpu(stream: &Stream) -> bool {
    // SAFETY: `stream` is alive; the device handle made here is freed here.
    unsafe {
        let mut device = mlx_sys::mlx_device_new();
        let mut kind = mlx_sys::mlx_device_type__MLX_GPU;
        let known = mlx_sys::mlx_stream_get_device(&raw mut device, stream.as_ptr()) == 0
            && mlx_sys::mlx_device_get_type(&raw mut kind, device) == 0;
        mlx_sys::mlx_device_free(device);
        known && kind == mlx_sys::mlx_device_type__MLX_CPU
    }
}
