//! Which MLX this program runs on.

use std::ffi::CStr;

/// The version that MLX gives of itself ("0.32.2"); empty if it gives none.
pub fn mlx_version() -> String {
    // SAFETY: the handle is made and freed here, and read only where the call succeeded.
    unsafe {
        let mut text = mlx_sys::mlx_string_new();
        let found = mlx_sys::mlx_version(&raw mut text) == 0;
        let data = mlx_sys::mlx_string_data(text);
        let version = if found && !data.is_null() {
            CStr::from_ptr(data).to_string_lossy().into_owned()
        } else {
            String::new()
        };
        mlx_sys::mlx_string_free(text);
        version
    }
}

/// The file that libmlx was loaded from, where it is a shared library and the system tells.
pub fn mlx_library() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.contains("libmlx."))?;
    line.find('/').map(|start| line[start..].to_owned())
}
