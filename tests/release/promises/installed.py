"""Whatever is installed with it: this version, from the wheel, complete, typed. Arguments: version, extra."""

import json
import sys
from importlib import import_module
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path

from .commands import editcritic

expected, extra = sys.argv[1], sys.argv[2]
for name in ("benchmarks", "cli", "integrations", "reward", "verifiers"):
    folder = Path(str(import_module(f"editcritic.{name}").__file__)).parent
    assert "site-packages" in folder.parts, f"{folder} is not installed"
    assert (folder / "py.typed").is_file(), f"{folder} has no py.typed"
assert version("editcritic") == expected, f"version {version('editcritic')}, expected {expected}"
assert editcritic("--version").strip() == f"editcritic {expected}"
doctor = json.loads(editcritic("doctor", "--json"))
missing = [one["name"] for one in doctor["packages"] if one["version"] is None and one["extra"] in {"", extra}]
assert not missing, f"not installed: {missing}"
for point in entry_points(group="editcritic.rewards"):
    point.load()
if not extra:
    heavy = [name for name in ("fastapi", "gradio", "matplotlib", "openai", "scipy", "torch") if find_spec(name)]
    assert not heavy, f"the base install brought {heavy}"
