"""What must be on a Linux machine before anything is built, and how it gets there."""

import os
import platform
import shutil
import subprocess
import sys

from pins import ARCH, PACKAGE, WHEELS
from report import SetupError, run, say

# What the wheels' manylinux_2_35 tag asks for.
GLIBC = (2, 35)


def ensure(variant):
    """Install what is missing where that is allowed; otherwise name everything missing at once."""
    _check_machine(variant)
    missing = _missing()
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        packages = [package for package, _ in missing.values() if package]
        if packages:
            say(f"installing {' '.join(packages)}")
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            run(["apt-get", "update", "-qq"], env=environment)
            run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], env=environment)
            missing = _missing()
    if missing:
        lines = [f"{what}: {remedy}" for what, (_, remedy) in missing.items()]
        raise SetupError("missing on this machine:\n  " + "\n  ".join(lines))


def _check_machine(variant):
    if (PACKAGE[variant], ARCH) not in WHEELS:
        raise SetupError(f"no MLX wheel for {ARCH}: x86_64 and aarch64 are supported")
    name, version = platform.libc_ver()
    if name != "glibc" or tuple(int(part) for part in version.split(".")[:2]) < GLIBC:
        wanted = ".".join(map(str, GLIBC))
        raise SetupError(f"found C library {name or 'unknown'} {version}: MLX's wheel needs glibc {wanted} or later")


def _missing():
    """What is missing -> (Debian package or None, the command that brings it)."""
    missing = {}
    if shutil.which("cargo") is None:
        missing["cargo"] = (None, "install Rust from rustup")
    if shutil.which("c++") is None or shutil.which("ar") is None:
        missing["C++ compiler"] = ("g++", "sudo apt-get install g++")
    if not _has_module("pip"):
        missing["pip"] = ("python3-pip", "sudo apt-get install python3-pip, or python3 -m ensurepip --user")
    return missing


def _has_module(name):
    return subprocess.run([sys.executable, "-m", name, "--version"], capture_output=True).returncode == 0
