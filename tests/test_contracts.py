"""Who may import whom, read from the import statements; and what importing the packages loads, seen in a process."""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from editcritic.reward.tomllib_compat import tomllib

ROOT = Path(__file__).parents[1]

# Each part of the package, and the parts it may import.
LAYERS = {
    "reward": set[str](),
    "verifiers": {"reward"},
    "integrations": {"reward", "verifiers"},
    "benchmarks": {"reward", "verifiers", "integrations"},
    "cli": {"reward", "verifiers", "integrations", "benchmarks"},
}
# The layers inside each part, lowest first.
ORDER: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "editcritic"
]["layers"]
# Folders among the experts that hold what several of them share.
SHARED = {"loading", "judging", "matching"}
# Distributions of the base install whose import name differs.
IMPORT_NAMES = {"opencv-python-headless": "cv2", "pillow": "PIL"}
# Modules of base distributions that pull in what the base install lacks.
HEAVY_PARTS = {
    "safetensors.flax",
    "safetensors.mlx",
    "safetensors.paddle",
    "safetensors.tensorflow",
    "safetensors.torch",
}
# What a relative import with more dots than there are packages means.
ABOVE = "(above the package)"


@dataclass(frozen=True)
class Import:
    """One module that a file imports, by its absolute name."""

    importer: str
    target: str
    line: int
    at_import: bool  # runs when the importer is imported: neither in a function nor for type checkers only

    def says(self, problem: str) -> str:
        return f"{self.importer}, line {self.line}: imports {self.target}: {problem}"

    @property
    def part(self) -> str:
        """The part that imports: `reward` for `editcritic.reward.image`, `examples` for a script there."""
        return next(name for name in self.importer.split(".") if name != "editcritic")

    def within(self, module: str) -> bool:
        return f"{self.target}.".startswith(f"{module}.")


class ImportReader(ast.NodeVisitor):
    """Collects the imports of one module, statements and `import_module("...")` alike."""

    def __init__(self, module: str, is_package: bool) -> None:
        self.module = module
        self.package = module.split(".") if is_package else module.split(".")[:-1]
        self.found: list[Import] = []
        self.at_import = True

    def absolute(self, name: str, level: int) -> str:
        if level > len(self.package):
            return ABOVE
        base = self.package[: len(self.package) - level + 1] if level else []
        return ".".join(filter(None, [*base, name]))

    def add(self, node: ast.AST, target: str) -> None:
        self.found.append(Import(self.module, target, getattr(node, "lineno", 0), self.at_import))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        # `from .. import verifiers` names a module, `from ..reward import Score` does not: the longer name is right
        # for the first and starts with the right one for the second.
        origin = self.absolute(node.module or "", node.level)
        for alias in node.names:
            self.add(node, f"{origin}.{alias.name}")

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in {"import_module", "__import__"} and node.args and isinstance(node.args[0], ast.Constant):
            name = str(node.args[0].value)
            self.add(node, self.absolute(name.lstrip("."), len(name) - len(name.lstrip("."))))
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


def imports(root: Path) -> Iterator[Import]:
    """Every import below `root`, in the parts and in the examples."""
    for folder in [*LAYERS, "examples"]:
        for path in sorted((root / folder).rglob("*.py")):
            names = list(path.relative_to(root).with_suffix("").parts)
            is_package = names[-1] == "__init__"
            prefix = ["editcritic"] if folder in LAYERS else []
            reader = ImportReader(".".join(prefix + (names[:-1] if is_package else names)), is_package)
            reader.visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))
            yield from reader.found


def layering(found: Import) -> str | None:
    """reward <- verifiers <- integrations <- benchmarks, whichever way an import is spelled."""
    if found.part not in LAYERS:
        return None
    names = found.target.split(".")
    if names[0] in {*LAYERS, "examples", "tests"} or found.within(ABOVE):
        return "only `editcritic.<part>` exists once installed"
    if names[0] == "editcritic" and not {*names[1:2]} & (LAYERS[found.part] | {found.part}):
        return f"{found.part} may import {', '.join(sorted(LAYERS[found.part])) or 'no other part'}"
    return None


def layer_of(part: str, names: list[str]) -> int | None:
    """The number of the layer that a module of a part is in; None where it is in none. names: below the part."""
    inside = [layer for layer in ORDER[part] if names[: layer.count("/") + 1] == layer.split("/")]
    layer = max(inside, key=len, default="*" if names else "")
    return ORDER[part].index(layer) if layer in ORDER[part] else None


def downwards(found: Import) -> str | None:
    """Inside a part, a module imports its own layer and those before it in the order of pyproject.toml."""
    if found.part not in LAYERS or not found.within(f"editcritic.{found.part}"):
        return None
    part = found.part
    here, there = layer_of(part, found.importer.split(".")[2:]), layer_of(part, found.target.split(".")[2:])
    if here is None or there is None or there <= here:
        return None
    return f"{ORDER[part][there]} stands above {ORDER[part][here]} in {part}"


def expert_apart(found: Import) -> str | None:
    """Each expert stands alone in its file or folder, on what they share."""
    experts = "editcritic.reward.experts"
    importer, target = found.importer.split("."), found.target.split(".")
    if not found.importer.startswith(f"{experts}.") or not found.within(experts) or target[3] in SHARED:
        return None
    return None if importer[3] == target[3] else "experts import none of each other"


def no_torchvision(found: Import) -> str | None:
    """The product neither imports nor requires torchvision."""
    return "torchvision is not ours to import" if found.within("torchvision") else None


def light(found: Import) -> str | None:
    """Importing a module needs no more than the base install, but for experts, adapters, the app's page and what trains
    models, which are imported where they are used.
    """
    trained = {"editcritic.benchmarks.sceneedit.tiny_editor", "editcritic.benchmarks.studies.learning"}
    adapters = {"editcritic.reward.experts", "editcritic.integrations", "editcritic.benchmarks.web_app"}
    shell = {*adapters, *trained}  # the packages themselves are light
    is_heavy_place = any(found.importer.startswith(f"{package}.") for package in shell)
    if any(found.importer.startswith(f"editcritic.reward.experts.{folder}") for folder in SHARED):
        is_heavy_place = False
    if found.part not in LAYERS or is_heavy_place or not found.at_import:
        return None
    known = sys.stdlib_module_names | base_modules() | {"editcritic", "tomllib"}  # the last from Python 3.11 on
    if found.target.split(".")[0] in known and not any(found.within(part) for part in HEAVY_PARTS):
        return None
    return "not in the base install: import it in the function that uses it"


def base_modules() -> set[str]:
    """The import names of what pyproject.toml requires without extras."""
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {requirement.partition(">")[0].strip() for requirement in requirements}
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names}


Rule = Callable[[Import], str | None]
RULES: list[Rule] = [layering, downwards, expert_apart, no_torchvision, light]


def violations(root: Path, rule: Rule) -> list[str]:
    return [found.says(problem) for found in imports(root) if (problem := rule(found))]


@pytest.mark.parametrize("rule", RULES)
def test_the_packages_keep_the_rule(rule: Rule) -> None:
    assert violations(ROOT, rule) == []


def test_every_module_is_in_a_layer() -> None:
    ours = {found.importer for found in imports(ROOT) if found.part in LAYERS and found.importer.count(".") > 1}
    assert [name for name in sorted(ours) if layer_of(name.split(".")[1], name.split(".")[2:]) is None] == []


def test_the_imports_of_every_part_are_read() -> None:
    assert {found.part for found in imports(ROOT)} >= {"reward", "benchmarks"}
    assert any(found.target.startswith("numpy") and found.at_import for found in imports(ROOT))


OFFENCES = [
    (layering, "reward/a.py", "from ..verifiers import accept"),
    (layering, "reward/a.py", "from .. import verifiers"),
    (layering, "reward/deep/a.py", "from ...cli import main"),
    (layering, "reward/__init__.py", "from ..verifiers import accept"),
    (layering, "reward/a.py", "from editcritic import integrations"),
    (layering, "reward/a.py", "from editcritic.integrations import trl"),
    (layering, "reward/a.py", "import editcritic.cli.main"),
    (layering, "reward/a.py", "import editcritic"),
    (layering, "reward/a.py", "from .. import *"),
    (layering, "reward/a.py", "def f():\n    from ..verifiers import accept"),
    (
        layering,
        "reward/a.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..verifiers import accept",
    ),
    (layering, "reward/a.py", "import importlib\nimportlib.import_module('editcritic.verifiers')"),
    (layering, "reward/a.py", "from importlib import import_module\nimport_module('..verifiers', __package__)"),
    (layering, "reward/a.py", "from verifiers import accept"),
    (layering, "reward/a.py", "import tests.fakes"),
    (layering, "reward/a.py", "from .... import somewhere"),
    (layering, "verifiers/a.py", "from ..integrations import trl"),
    (layering, "verifiers/a.py", "import editcritic.benchmarks"),
    (layering, "integrations/a.py", "from .. import cli"),
    (layering, "integrations/trl/a.py", "from ... import cli"),
    (layering, "benchmarks/a.py", "from ..cli import main"),
    (downwards, "reward/a.py", "from .queries import Detect"),
    (downwards, "reward/queries/a.py", "from ..engine.engine import Engine"),
    (downwards, "reward/queries/a.py", "def f():\n    from ..config import build"),
    (downwards, "reward/experts/loading/a.py", "from ..clip import Clip"),
    (downwards, "verifiers/selection/a.py", "from ..selectors.beam import BeamSearch"),
    (downwards, "benchmarks/suites/edival/a.py", "from ...run.runner import run_suite"),
    (expert_apart, "reward/experts/a.py", "from .b import B"),
    (expert_apart, "reward/experts/a.py", "from . import b"),
    (expert_apart, "reward/experts/a.py", "from ..experts.b import B"),
    (expert_apart, "reward/experts/a.py", "import editcritic.reward.experts.b"),
    (expert_apart, "reward/experts/a/__init__.py", "from ..b import B"),
    (expert_apart, "reward/experts/a/inner.py", "def f():\n    from ..b import B"),
    (no_torchvision, "reward/experts/a.py", "import torchvision"),
    (no_torchvision, "integrations/a.py", "def f():\n    from torchvision.transforms import functional"),
    (no_torchvision, "examples/a.py", "import torchvision"),
    (light, "reward/a.py", "import torch"),
    (light, "reward/a.py", "from transformers import AutoModel"),
    (light, "reward/a.py", "import safetensors.torch"),
    (light, "reward/a.py", "from safetensors import torch"),
    (light, "reward/a.py", "try:\n    pass\nfinally:\n    import torch"),
    (light, "reward/a.py", "class A:\n    import torch"),
    (light, "reward/a.py", "import importlib\ntorch = importlib.import_module('torch')"),
    (light, "reward/experts/__init__.py", "import torch"),
    (light, "reward/metrics/edival/a.py", "import skimage"),
    (light, "verifiers/a.py", "import ray"),
    (light, "integrations/__init__.py", "import trl"),
    (light, "benchmarks/a.py", "import fastapi"),
    (light, "benchmarks/sceneedit/a.py", "import torch"),
    (light, "benchmarks/sceneedit/tiny_editor/__init__.py", "import torch"),
    (light, "benchmarks/studies/learning/__init__.py", "import torch"),
]
ALLOWED = [
    "reward/a.py:from .b import c",
    "reward/deep/a.py:from .. import b",
    "reward/__init__.py:from .a import b",
    "reward/a.py:from editcritic.reward import b",
    "reward/a.py:import numpy as np, cv2, PIL.Image\nfrom safetensors.numpy import save",
    "reward/a.py:def f():\n    import torch",
    "reward/a.py:async def f():\n    import torch",
    "reward/a.py:from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch",
    "reward/experts/__init__.py:from .a import A",
    "reward/experts/a.py:import torch\nfrom ..boxes import Boxes",
    "reward/experts/a/__init__.py:from .inner import A",
    "reward/experts/a/inner.py:from ..a import A",
    "reward/metrics/edival/a.py:from ..experts.b import B",
    "verifiers/a.py:from ..reward import Score",
    "benchmarks/sceneedit/tiny_editor/a.py:import torch",
    "integrations/a.py:import trl\nfrom ..verifiers import accept\nfrom ..reward import Score",
    "benchmarks/a.py:from ..reward import a\nfrom ..verifiers import b\nfrom ..integrations import c",
    "examples/a.py:import torch\nfrom editcritic.reward import Score",
]


def write(root: Path, name: str, source: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")


@pytest.mark.parametrize(("rule", "name", "source"), OFFENCES)
def test_an_offence_is_caught(rule: Rule, name: str, source: str, tmp_path: Path) -> None:
    write(tmp_path, name, source)
    found = violations(tmp_path, rule)
    assert len(found) == 1
    assert f"line {len(source.splitlines())}:" in found[0]


@pytest.mark.parametrize("case", ALLOWED)
@pytest.mark.parametrize("rule", RULES)
def test_what_is_allowed_is_not_caught(rule: Rule, case: str, tmp_path: Path) -> None:
    name, _, source = case.partition(":")
    write(tmp_path, name, source)
    assert violations(tmp_path, rule) == []


# Seconds to import, gigabytes to hold, or simply not there in a base install.
HEAVY = {
    *["accelerate", "datasets", "diffusers", "fastapi", "onnxruntime", "openai", "peft", "rapidocr", "ray"],
    *["scipy", "skimage", "torch", "torchvision", "transformers", "trl", "uvicorn"],
}


def loaded_by(statement: str, folder: Path) -> set[str]:
    """The heavy modules that a fresh interpreter holds after `statement`; modules in `folder` come first."""
    script = f"import sys; sys.path.insert(0, {str(folder)!r}); {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, timeout=120)
    assert run.returncode == 0, run.stderr
    return HEAVY & set(run.stdout.split())


@pytest.mark.parametrize("module", [*LAYERS, "cli.app"])
def test_importing_loads_nothing_heavy(module: str, tmp_path: Path) -> None:
    assert loaded_by(f"import editcritic.{module}", tmp_path) == set()


def test_a_heavy_import_is_seen(tmp_path: Path) -> None:
    (tmp_path / "torch.py").touch()
    (tmp_path / "innocent.py").write_text("import torch", encoding="utf-8")
    assert loaded_by("import innocent", tmp_path) == {"torch"}
