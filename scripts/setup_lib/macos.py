"""What mlx-sys's own build script needs on a Mac."""

import shutil
import subprocess

from report import SetupError

NEEDED = {
    "cargo": "install Rust from rustup",
    "cmake": "brew install cmake",
}


def check():
    missing = [f"{tool}: {remedy}" for tool, remedy in NEEDED.items() if shutil.which(tool) is None]
    if subprocess.run(["xcrun", "--find", "metal"], capture_output=True).returncode != 0:
        missing.append("the Metal compiler: install Xcode, then `xcodebuild -downloadComponent MetalToolchain`")
    if subprocess.run(["xcode-select", "-p"], capture_output=True).returncode != 0:
        missing.append("command line tools: xcode-select --install")
    if missing:
        raise SetupError("missing on this Mac:\n  " + "\n  ".join(missing))
