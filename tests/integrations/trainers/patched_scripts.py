"""Trainers' scripts, restated, with the lines of docs/trainers/ in them."""

import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

RESTATED = Path(__file__).parent / "restated"
SERVER = '"http://127.0.0.1:8321"'


def patched_script(name: str, diffs: Sequence[str], modules: Mapping[str, Any], **given: Any) -> ModuleType:
    """The script `restated/<name>.py`, changed by diffs and run, up to its functions.

    diffs: hunks, between lines with @@. Their context and the lines they remove must be in the script, in order, but
    for indentation and comments. modules: names that the script may import -> where they are. given: values that stand
    in for the server of the page, `SERVER`, as `reward=` (a URL, or a reward), and for any other name in the script.
    """
    path = RESTATED / f"{name}.py"
    lines = path.read_text(encoding="utf-8").splitlines()
    for hunk in re.split(r"^@@.*\n", "\n@@\n".join(diff.rstrip("\n") for diff in diffs), flags=re.MULTILINE):
        lines = _changed(lines, hunk.splitlines())
    text = "\n".join(lines)
    if "reward" in given:
        assert SERVER in text
        text = text.replace(SERVER, "given_reward")
        if not isinstance(given["reward"], str):
            text = text.replace(
                'missing="nan")', 'missing="nan", outage_timeout_s=0)'
            )  # no test waits for a lasting failure
    module = ModuleType(f"{__package__}.restated.{name}_patched")
    module.__dict__.update({"given_reward" if key == "reward" else key: value for key, value in given.items()})
    found = {target: import_module(f"{__package__}.restated.{where}") for target, where in modules.items()}
    package = ModuleType("flow_grpo")
    for target, where in found.items():
        copy = ModuleType(target)  # the script sets names in it
        copy.__dict__.update(vars(where))
        found[target] = copy
        setattr(package, target.rpartition(".")[2], copy)
    with patch.dict(sys.modules, {"flow_grpo": package, **found, module.__name__: module}):
        exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def _changed(lines: list[str], hunk: list[str]) -> list[str]:
    old = [line[1:] for line in hunk if not line.startswith("+")]
    places = [
        start
        for start in range(len(lines) - len(old) + 1)
        if all(_bare(one) == _bare(other) for one, other in zip(lines[start:], old, strict=False))
    ]
    assert old, f"a hunk without a place: {hunk}"
    assert len(places) == 1, f"{len(places)} places for {hunk}"
    (start,) = places
    shift = _indent(lines[start]) - _indent(old[0])
    new = [" " * (shift + _indent(line[1:])) + line[1:].strip() for line in hunk if not line.startswith("-")]
    return [*lines[:start], *new, *lines[start + len(old) :]]


def _bare(line: str) -> str:
    return re.sub(r"  # (type|noqa).*", "", line).strip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
