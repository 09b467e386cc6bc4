"""The set-up on Linux: what it depends on, whether it is current, and how it is redone."""

import fcntl
import hashlib
import json
import os
import subprocess

import config
import mlx_sys
import native
import prerequisites
import wheels
from pins import ARCH, CARGO_CONFIG, ROOT, STATE, native_dir, wheel_dir
from report import say

RECORD = STATE / "setup.json"


def ensure(variant, quiet):
    """Bring the set-up of `variant` about, unless it is already current."""
    STATE.mkdir(exist_ok=True)
    with open(STATE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_current(variant):
            if not quiet:
                say(f"up to date ({variant})")
            return
        RECORD.unlink(missing_ok=True)
        prerequisites.ensure(variant)
        wheels.unpack_mlx(variant)
        native.build(variant)
        _write(CARGO_CONFIG, config.render(variant))
        _write(RECORD, json.dumps({"inputs": _inputs(variant), "outputs": _outputs(variant)}, indent=1))
        say(f"done ({variant})")


def _is_current(variant):
    try:
        record = json.loads(RECORD.read_text())
        return record["inputs"] == _inputs(variant) and record["outputs"] == _outputs(variant)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _inputs(variant):
    """Everything that decides the result, as text."""
    digest = hashlib.sha256()
    own = sorted((ROOT / "scripts" / "setup_lib").glob("*.py")) + sorted((ROOT / "scripts" / "native").rglob("*"))
    for path in own:
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update(mlx_sys.locked_version().encode())
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True).stdout.splitlines()
    return {"variant": variant, "arch": ARCH, "root": str(ROOT), "files": digest.hexdigest(), "compiler": compiler[:1]}


def _outputs(variant):
    """Size and time of every file that a build would miss if it were lost or half written."""
    mlx = wheel_dir(variant) / "mlx"
    files = [CARGO_CONFIG, mlx / "lib" / "libmlx.so", mlx / "include" / "mlx" / "primitives.h"]
    files += [native_dir() / name for name in ("libmlxc.a", "libmlx_mach_time.a", "bindings.rs")]
    return {str(path): [path.stat().st_size, path.stat().st_mtime_ns] for path in files}


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    os.replace(partial, path)
