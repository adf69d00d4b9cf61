"""`all` brings what every module needs, but for tools of others that no extra brings."""

import pkgutil
from importlib import import_module
from typing import Any

import editcritic.benchmarks
import editcritic.cli
import editcritic.integrations
import editcritic.reward
import editcritic.verifiers

PARTS: list[Any] = [
    editcritic.benchmarks,
    editcritic.cli,
    editcritic.integrations,
    editcritic.reward,
    editcritic.verifiers,
]
# Trainers and engines that are installed by their own instructions.
OTHERS = {"verl_omni"}

names = [one.name for part in PARTS for one in pkgutil.walk_packages(part.__path__, f"{part.__name__}.")]
assert len(names) > 500, names
missing: dict[str, str | None] = {}
for name in names:
    try:
        if not name.endswith("__main__"):
            import_module(name)
    except ModuleNotFoundError as error:
        missing[name] = error.name
unknown = {name: module for name, module in missing.items() if module not in OTHERS}
assert not unknown, f"no extra brings what these import: {unknown}"
