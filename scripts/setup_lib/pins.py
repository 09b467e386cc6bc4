"""Versions, hashes and places. Everything that decides what gets built is here."""

import platform
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".mlx"
SOURCES = ROOT / "scripts" / "native"
CARGO_CONFIG = ROOT / ".cargo" / "config.toml"

# mlx-c 0.7.0, inside mlx-sys 0.7.0, is made for exactly this MLX.
MLX_VERSION = "0.32.2"
BINDGEN_VERSION = "0.72.1"

ARCH = platform.machine()
TARGET = f"{ARCH}-unknown-linux-gnu"

# (PyPI package, architecture) -> SHA-256 of its manylinux_2_35 wheel.
WHEELS = {
    ("mlx-cpu", "x86_64"): "fc5d31b90fc4f457b2f9614ed45651a567d22a6a11a03d114a90a4e10bdd8878",
    ("mlx-cpu", "aarch64"): "d0f94625588b51a878786dd51cec5617894ce586cf3c94645ce1b64e24c27c0b",
    ("mlx-cuda-13", "x86_64"): "335094ccd1c0c6dc3e09c8caba207c8180602bacc0c38ba20c1d81e9456ab394",
    ("mlx-cuda-13", "aarch64"): "49b1a25df9021f3b519a534fd39a32a5cdbf93a1b265a31e59671c2d9fc9f4a2",
}
PACKAGE = {"cpu": "mlx-cpu", "cuda": "mlx-cuda-13"}

# bindgen loads this; its hash is checked for every wheel that pip may choose.
LIBCLANG_VERSION = "18.1.1"
LIBCLANG_HASHES = {
    "x86_64": "c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b",
    "aarch64": "54dda940a4a0491a9d1532bf071ea3ef26e6dbaf03b5000ed94dd7174e8f9592",
}


def wheel_dir(variant):
    """Where the wheel's files are: mlx/, mlx_cpu.libs/ (or the CUDA build's own) and so on."""
    return STATE / f"wheel-{variant}"


def native_dir():
    """libmlxc.a, libmlx_mach_time.a and bindings.rs; the same for both variants."""
    return STATE / "native"
