"""The registered shaders, and every combination of template values that the lint covers."""

import itertools
import json
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "kernels"


class Kernel:
    """One entry of kernels/registry.json with its texts read in."""

    def __init__(self, entry, sets):
        self.name = entry["name"]
        self.body_path = entry["body"]
        self.headers = entry["headers"]
        self.inputs = entry["inputs"]
        self.outputs = entry["outputs"]
        self.template = entry["template"]
        self._cases = entry["cases"]
        self._sets = sets
        self.texts = {path: (KERNELS / path).read_text() for path in [self.body_path, *self.headers]}

    @property
    def body(self):
        return self.texts[self.body_path]

    def combinations(self):
        """Each combination of template values once, as a dict from parameter to value."""
        seen = set()
        for case in self._cases:
            choices = [self._sets[case[name]] if isinstance(case[name], str) else case[name] for name in self.template]
            for values in itertools.product(*choices):
                if values not in seen:
                    seen.add(values)
                    yield dict(zip(self.template, values))


def load():
    """Every registered kernel."""
    registry = json.loads((KERNELS / "registry.json").read_text())
    return [Kernel(entry, registry["sets"]) for entry in registry["kernels"]]
