"""Builds mlx-c and generates its Rust bindings, as mlx-sys's build script would."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import mlx_sys
import wheels
from pins import BINDGEN_VERSION, SOURCES, STATE, native_dir, wheel_dir
from report import run, say

# mlx-c's CMakeLists.txt leaves this one out.
NOT_BUILT = {"object.cpp"}


def build(variant):
    """libmlxc.a, libmlx_mach_time.a and bindings.rs in native_dir()."""
    out = native_dir()
    shutil.rmtree(out, ignore_errors=True)
    (out / "objects").mkdir(parents=True)
    _build_mlxc(variant)
    _generate_bindings()
    shutil.rmtree(out / "objects")


def _build_mlxc(variant):
    say("building mlx-c")
    mlx_c = mlx_sys.source_dir() / "src" / "mlx-c"
    include = wheel_dir(variant) / "mlx" / "include"
    out = native_dir()
    flags = ["-O2", "-DNDEBUG", "-fPIC", "-w", "-I", mlx_c, "-I", include]
    cxx = ["c++", "-std=c++20", *flags, "-include", SOURCES / "mlxc_compat.h"]

    def compile_one(source):
        target = out / "objects" / (source.stem + ".o")
        run([*cxx, "-c", source, "-o", target])
        return target

    sources = sorted(path for path in (mlx_c / "mlx" / "c").glob("*.cpp") if path.name not in NOT_BUILT)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources))
    run(["ar", "crs", out / "libmlxc.a", *objects])

    clock = out / "objects" / "mach_time.o"
    run(["cc", *flags, "-c", SOURCES / "mach_time.c", "-o", clock])
    run(["ar", "crs", out / "libmlx_mach_time.a", clock])


def _generate_bindings():
    say("generating bindings")
    mlx_c = mlx_sys.source_dir() / "src" / "mlx-c"
    headers = sorted((mlx_c / "mlx" / "c").glob("*.h"))
    umbrella = native_dir() / "objects" / "all.h"
    umbrella.write_text("".join(f'#include "{header}"\n' for header in headers))
    # The libclang wheel has no headers of its own; the compiler's stddef.h and the like serve.
    builtin = run(["cc", "-print-file-name=include"]).strip()
    command = [_bindgen(), umbrella, "--output", native_dir() / "bindings.rs", "--rust-target", "1.73"]
    command += ["--blocklist-function", "malloc", "--blocklist-function", "realloc"]
    command += ["--", "-include", SOURCES / "mlxc_compat.h", "-I", mlx_c, "-isystem", builtin]
    libclang = wheels.unpack_libclang(STATE / "libclang")
    run(command, env={**os.environ, "LIBCLANG_PATH": str(libclang)})


def _bindgen():
    tools = STATE / "tools"
    binary = tools / f"bindgen-{BINDGEN_VERSION}"
    if not binary.exists():
        say(f"building bindgen {BINDGEN_VERSION}")
        command = ["cargo", "install", "--quiet", "--locked", f"bindgen-cli@{BINDGEN_VERSION}", "--root", tools]
        run([*command, "--target-dir", tools / "build"])
        os.replace(tools / "bin" / "bindgen", binary)
        shutil.rmtree(tools / "build", ignore_errors=True)
    return binary
