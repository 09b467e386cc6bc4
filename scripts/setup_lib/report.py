"""Messages and failures of the set-up."""

import subprocess
import sys


class SetupError(Exception):
    """A failure that the user can act on; its text says how."""


def say(message):
    print(f"setup: {message}", file=sys.stderr, flush=True)


def run(command, **kwargs):
    """Run a command; on failure show the end of what it printed."""
    command = [str(part) for part in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-40:])
        raise SetupError(f"`{' '.join(command)}` failed with exit status {done.returncode}; it printed:\n{tail}")
    return done.stdout
