"""Trainers' scripts, restated, with the lines of docs/trainers/ in them."""

import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

RESTATED = Path(__file__).parent / "restated"
SERVER = '"http://127.0.0.1:8321"'


def patched_script(name: str, diffs: Sequence[str], modules: Mapping[str, Any], **given: Any) -> ModuleType:
    """The script `restated/<name>.py`, changed by diffs and run, up to its functions.

    diffs: hunks below file names. Their context and the lines they remove must be in the script, in order, but for
    indentation and comments. modules: names that the script may import -> where they are; each script
    has its own, since a page may change them. given: values that stand in for the server of the page, `SERVER`, as
    `reward=` (a URL, or a reward), and for any other name in the script.
    """
    path = RESTATED / f"{name}.py"
    lines = path.read_text(encoding="utf-8").splitlines()
    for diff in diffs:
        for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE)[1:]:  # without the file names
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
    package = ModuleType("flow_grpo")
    with patch.dict(sys.modules, {"flow_grpo": package, module.__name__: module}):
        for target, where in modules.items():
            spec = spec_from_file_location(target, RESTATED / f"{where}.py")
            assert spec is not None
            assert spec.loader is not None
            sys.modules[target] = found = module_from_spec(spec)
            spec.loader.exec_module(found)
            setattr(package, target.rpartition(".")[2], found)
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
