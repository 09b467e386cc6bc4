"""The generated .cargo/config.toml."""

from pins import MLX_VERSION, TARGET, native_dir, wheel_dir
from report import SetupError
import mlx_sys


def render(variant):
    """The configuration that replaces mlx-sys's build script and finds libmlx at run time."""
    mlx = wheel_dir(variant) / "mlx"
    include = f"{mlx}/include:{mlx_sys.source_dir()}/src/mlx-c"
    for path in (mlx, native_dir(), include):
        if '"' in str(path) or "\\" in str(path):
            raise SetupError(f"the path {path} has a quote or a backslash, which .cargo/config.toml cannot hold")
    return f"""\
# Written by scripts/setup: uses MLX {MLX_VERSION} ({variant}) in place of mlx-sys's build script.
[target.{TARGET}.mlx]
rustc-link-search = ["native={native_dir()}", "native={mlx}/lib"]
rustc-link-lib = ["static=mlxc", "static=mlx_mach_time", "dylib=mlx", "dylib=stdc++"]
rustc-env = {{ OUT_DIR = "{native_dir()}" }}
include = "{include}"
defines = ""
version = "{MLX_VERSION}"

[target.{TARGET}]
rustflags = ["-C", "link-arg=-Wl,-rpath,{mlx}/lib"{_allow_undefined(variant)}]

# Documentation tests link too, and take no rustflags.
[build]
rustdocflags = ["-C", "link-arg=-Wl,-rpath,{mlx}/lib"{_allow_undefined(variant)}]
"""


def _allow_undefined(variant):
    # The CUDA library finds NVIDIA's through its own RPATH at run time; the linker need not see them.
    return ', "-C", "link-arg=-Wl,--allow-shlib-undefined"' if variant == "cuda" else ""
