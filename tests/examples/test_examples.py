"""Every example runs, as a user would run it."""

import ast
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ..needs import needs

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))

TRAINING = {
    "adaptive_search",
    "best_of_n_kontext",
    "dpo_pairs",
    "flow_grpo",
    "grpo_writer",
    "remote_reward",
    "sequential_edit",
    "verifier_callback",
}
"""These run or train the tiny editor: `make test-all`."""


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} > TRAINING


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in TRAINING else [])
        for path in EXAMPLES
        if find_spec("torch") or not needs(path)
    ],
)
def test_it_runs(path, tmp_path):
    ran = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip()


def test_the_notebook_shows_scores_and_pictures():
    """As a notebook does: each cell in turn, and the last expression of each is displayed."""
    cells = json.loads((EXAMPLES[0].parent / "score_edits.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    shown: list[Any] = []
    for source in ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"):
        *statements, last = ast.parse(source).body
        exec(compile(ast.Module(statements, []), "cell", "exec"), names)
        shown.append(eval(ast.unparse(last), names))
    table, one, picture = shown[1:]
    assert table._repr_html_().count("<tr>") == len(names["edits"])
    assert "preservation" in one._repr_html_()
    assert picture._repr_png_().startswith(b"\x89PNG")
    assert names["scores"].values[0] == max(filter(None, names["scores"].values))
