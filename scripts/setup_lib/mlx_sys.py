"""Finds the sources of the mlx-sys package that the workspace depends on."""

import functools
import json
import subprocess
from pathlib import Path

from pins import ROOT
from report import SetupError


@functools.cache
def source_dir():
    """The unpacked mlx-sys package, as Cargo sees it."""
    command = ["cargo", "metadata", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SetupError(f"`{' '.join(command)}` failed:\n{done.stderr}")
    for package in json.loads(done.stdout)["packages"]:
        if package["name"] == "mlx-sys":
            return Path(package["manifest_path"]).parent
    raise SetupError("mlx-sys is not among the workspace's dependencies")


def locked_version():
    """The mlx-sys entry of Cargo.lock, version and checksum included."""
    for entry in (ROOT / "Cargo.lock").read_text().split("[[package]]"):
        if 'name = "mlx-sys"' in entry:
            return entry.split("dependencies")[0].strip()
    raise SetupError("Cargo.lock has no mlx-sys")
