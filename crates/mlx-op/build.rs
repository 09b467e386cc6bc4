//! Compiles the C++ half of [`HostOp`](src/host/mod.rs) against the MLX that mlx-sys links.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=src/host/primitive.cpp");
    let include = env::var_os("DEP_MLX_INCLUDE").expect(
        "mlx-sys gave no include directories: on Linux run scripts/setup first, \
         or add what `scripts/setup --print-config` prints to .cargo/config.toml",
    );
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++20")
        .warnings(false)
        .file("src/host/primitive.cpp");
    for path in env::split_paths(&include) {
        // `-isystem`: warnings inside MLX's headers are not ours.
        build.flag("-isystem").flag(path);
    }
    for define in env::var("DEP_MLX_DEFINES")
        .unwrap_or_default()
        .split_whitespace()
    {
        build.define(define, None);
    }
    build.compile("mlx_op_host");
}
