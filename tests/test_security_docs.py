"""Every sentence of docs/security.md that promises something names the test that shows it, and the test exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROMISES = [line for line in (ROOT / "docs" / "security.md").read_text().splitlines() if line.startswith("- ")]


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_names_a_test_that_exists(promise: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", promise)
    assert named, "name the test, as in `tests/test_x.py::test_y`"
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text())
        assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{file}::{test}"


def test_there_are_promises() -> None:
    assert len(PROMISES) > 30
