"""Fetching and unpacking wheels from PyPI, each checked against its pinned hash."""

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from pins import ARCH, LIBCLANG_HASHES, LIBCLANG_VERSION, MLX_VERSION, PACKAGE, STATE, WHEELS, wheel_dir
from report import SetupError, run, say


def unpack_mlx(variant):
    """Lay the pinned MLX wheel out under wheel_dir(variant)."""
    package = PACKAGE[variant]
    unpack(package, MLX_VERSION, WHEELS[package, ARCH], wheel_dir(variant))
    if variant == "cuda":
        _install_nvidia_libraries(wheel_dir(variant))


def unpack_libclang(destination):
    """Lay libclang out under `destination`; returns the folder that holds libclang.so."""
    unpack("libclang", LIBCLANG_VERSION, LIBCLANG_HASHES[ARCH], destination)
    return next(destination.rglob("libclang.so")).parent


def unpack(package, version, sha256, destination):
    """Download one wheel, check its hash and unpack it, whole or not at all."""
    wheel = _download(package, version, sha256)
    shutil.rmtree(destination, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(dir=destination.parent, prefix=f"{package}-"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(partial)
    os.replace(partial, destination)


def _download(package, version, sha256):
    cache = STATE / "downloads"
    cache.mkdir(parents=True, exist_ok=True)
    for wheel in cache.glob(f"{package.replace('-', '_')}-{version}-*.whl"):
        if _sha256(wheel) == sha256:
            return wheel
        wheel.unlink()
    say(f"fetching {package} {version}")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", cache, f"{package}=={version}"]
    run(command)
    for wheel in cache.glob(f"{package.replace('-', '_')}-{version}-*.whl"):
        if _sha256(wheel) == sha256:
            return wheel
        found = _sha256(wheel)
        wheel.unlink()
        raise SetupError(f"{wheel.name} has SHA-256 {found}, expected {sha256}; it was removed")
    raise SetupError(f"pip brought no wheel of {package} {version} for {ARCH}")


def _sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _install_nvidia_libraries(site):
    """The CUDA libraries that the wheel's metadata names, beside it, where its RPATH looks."""
    metadata = next(site.glob("mlx_cuda_13-*.dist-info/METADATA")).read_text()
    needs = [line.split(":", 1)[1].split(";")[0].strip() for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    nvidia = [need for need in needs if need.startswith("nvidia-")]
    say(f"fetching NVIDIA's libraries ({len(nvidia)} packages, several hundred MB)")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    run([*command, "--only-binary=:all:", "--target", site, *nvidia])
