"""The commands about the tiny editor where the extra `diffusers` is not installed."""

import subprocess
import sys

import pytest

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.errors import InputError

NEEDS = ("torch", "transformers", "diffusers")

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from {module} import main
main([])
"""


@pytest.mark.parametrize(
    "module", ["editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation", "studies.tiny_editor.train"]
)
def test_they_say_in_a_line_what_to_install(module):
    script = WITHOUT_TORCH.format(module=module)
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.returncode == 2
    assert "this requires torch, which is not installed: pip install 'editcritic[diffusers]'" in process.stderr
    assert process.stderr.count("\n") == 1


@pytest.mark.parametrize("library", ["torch", "transformers", "diffusers"])
def test_each_library_of_the_extra_is_missed(library, monkeypatch):
    assert optional_imports.require_diffusers().__name__ == "diffusers"
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        InputError, match=f"this requires {library}, which is not installed.*'editcritic\\[diffusers\\]'"
    ):
        optional_imports.require_diffusers()
