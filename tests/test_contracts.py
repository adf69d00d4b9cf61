"""Who may import whom, by import-linter with the contracts of pyproject.toml; and what importing the packages loads."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from editcritic.reward.toml_files import tomllib

ROOT = Path(__file__).parents[1]
PARTS = ("reward", "verifiers", "integrations", "benchmarks", "cli")
# Here modules import what their extra brings at the top, but for the packages themselves and what experts share.
HEAVY_PLACES = (
    *("reward/experts/", "integrations/", "benchmarks/web_app/", "benchmarks/sceneedit/tiny_editor/"),
    "studies/learning/",
)
LIGHT_PLACES = (
    *("reward/experts/loading", "reward/experts/judging", "reward/experts/matching"),
    *(f"{place}__init__.py" for place in HEAVY_PLACES),
)
# Distributions of the base install whose import name differs.
IMPORT_NAMES = {"opencv-python-headless": "cv2", "pillow": "PIL"}
# Modules of base distributions that pull in what the base install lacks.
HEAVY_PARTS = tuple(f"safetensors.{library}." for library in ("flax", "mlx", "paddle", "tensorflow", "torch"))
OFFENCES = [
    ("reward/a.py", "import torch"),
    ("reward/a.py", "from transformers import AutoModel"),
    ("reward/a.py", "import safetensors.torch"),
    ("reward/a.py", "from safetensors import torch"),
    ("reward/a.py", "try:\n    pass\nfinally:\n    import torch"),
    ("reward/a.py", "class A:\n    import torch"),
    ("reward/a.py", "import importlib\ntorch = importlib.import_module('torch')"),
    ("reward/experts/__init__.py", "import torch"),
    ("reward/experts/loading/a.py", "import torch"),
    ("reward/metrics/edival/a.py", "import skimage"),
    ("integrations/__init__.py", "import trl"),
    ("benchmarks/a.py", "import fastapi"),
    ("studies/learning/__init__.py", "import torch"),
    ("reward/experts/a.py", "import torchvision"),
    ("integrations/a.py", "def f():\n    from torchvision.transforms import functional"),
    ("examples/a.py", "import torchvision"),
    ("reward/a.py", "import importlib\nimportlib.import_module('editcritic.verifiers')"),
    ("reward/a.py", "from importlib import import_module\nimport_module('..verifiers', __package__)"),
    ("reward/a.py", "def f():\n    from verifiers import accept"),
    ("reward/a.py", "import tests.fakes"),
]
ALLOWED = [
    ("reward/a.py", "import numpy as np, cv2, PIL.Image\nfrom safetensors.numpy import save"),
    ("reward/a.py", "def f():\n    import torch"),
    ("reward/a.py", "async def f():\n    import torch"),
    ("reward/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
    ("reward/experts/a.py", "import torch\nfrom ..boxes import Boxes"),
    ("benchmarks/sceneedit/tiny_editor/a.py", "import torch"),
    ("integrations/trl/__init__.py", "import trl\nfrom ...verifiers import accept"),
    ("examples/a.py", "import torch\nfrom editcritic.reward import Score"),
]
# Seconds to import, gigabytes to hold, or simply not there in a base install.
HEAVY = {
    *["accelerate", "datasets", "diffusers", "fastapi", "onnxruntime", "openai", "peft", "rapidocr", "ray"],
    *["scipy", "skimage", "torch", "torchvision", "transformers", "trl", "uvicorn"],
}


def test_layers_import_what_is_below_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS


class ImportReader(ast.NodeVisitor):
    """Collects the absolute imports of one module, statements and `import_module("...")` alike."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int, bool]] = []
        """Name, line, and whether it runs at import: neither in a function nor for type checkers only."""
        self.at_import = True

    def visit_Import(self, node: ast.Import) -> None:
        self.found += [(alias.name, node.lineno, self.at_import) for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if not node.level:
            self.found += [(f"{node.module}.{alias.name}", node.lineno, self.at_import) for alias in node.names]

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in {"import_module", "__import__"} and node.args and isinstance(node.args[0], ast.Constant):
            self.found.append((str(node.args[0].value), node.lineno, self.at_import))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in {getattr(node.test, "id", ""), getattr(node.test, "attr", "")}:
            self.later(node.body)
            for statement in node.orelse:
                self.visit(statement)
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self.later(node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def later(self, statements: list[ast.stmt]) -> None:
        before, self.at_import = self.at_import, False
        for statement in statements:
            self.visit(statement)
        self.at_import = before


@cache
def base_modules() -> set[str]:
    """The import names of the standard library and of what pyproject.toml requires without extras."""
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {requirement.partition(">")[0].strip() for requirement in requirements}
    return {*sys.stdlib_module_names, "tomllib", *(IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names)}


def offences(path: str, source: str) -> list[str]:
    """What the linters do not see. path: of a file in a part or among the examples, from the root."""
    reader = ImportReader()
    reader.visit(ast.parse(source, path))
    is_example = path.startswith("examples/")
    is_light = not is_example and (path.startswith(LIGHT_PLACES) or not path.startswith(HEAVY_PLACES))
    itself = f"editcritic.{path.removesuffix('.py').replace('/', '.')}"
    found = []
    for name, line, at_import in reader.found:
        top = name.partition(".")[0]
        problem = ""
        if top in {*PARTS, "examples", "tests"}:
            problem = "only `editcritic.<part>` exists once installed"
        elif top in {"editcritic", ""}:
            problem = "" if is_example or name == itself else "imports of ours are relative statements"
        elif top == "torchvision":
            problem = "torchvision is not ours to import"
        elif is_light and at_import and (top not in base_modules() or f"{name}.".startswith(HEAVY_PARTS)):
            problem = "not in the base install: import it in the function that uses it"
        if problem:
            found.append(f"{path}, line {line}: imports {name}: {problem}")
    return found


def test_importing_a_module_needs_the_base_install_and_nothing_is_imported_by_a_wrong_name() -> None:
    paths = [path for folder in (*PARTS, "examples") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(paths) > 500
    found = {path: offences(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in paths}
    assert {path: told for path, told in found.items() if told} == {}


def test_an_offence_is_told_with_its_line_and_what_is_allowed_is_none() -> None:
    for path, source in OFFENCES:
        (told,) = offences(path, source)
        assert told.startswith(f"{path}, line {len(source.splitlines())}: "), source
    assert [offences(path, source) for path, source in ALLOWED] == [[]] * len(ALLOWED)


def test_importing_loads_nothing_heavy(tmp_path: Path) -> None:
    imports = ", ".join(f"editcritic.{module}" for module in (*PARTS, "cli.app"))
    script = f"import sys, {imports}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert run.returncode == 0, run.stderr
    loaded = set(run.stdout.split())
    assert HEAVY & loaded == set()
    assert "editcritic.cli.app" in loaded
