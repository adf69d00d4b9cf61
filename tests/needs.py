"""Which test files need torch, or a library that is only used with it: without torch, they are left out.

A file needs the modules that it imports, anywhere in it, and those of the test helpers that it imports. Modules that
experts and commands load on use are declared in the file: `NEEDS = ("torch",)`.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

# The modules that `make test` installs and `make test-lowest` and `make test-pythons` do not.
BESIDE_TORCH = {
    *["accelerate", "bitsandbytes", "datasets", "diffusers", "einops", "huggingface_hub", "llguidance", "mkdocs"],
    *["peft", "ray", "spandrel", "tokenizers", "torch", "torchvision", "transformers", "trl"],
}


@cache
def needs(path: Path) -> frozenset[str]:
    """The modules of `BESIDE_TORCH` that a test file needs. path: absolute."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    names = {*_imported(tree, path), *_declared(tree)}
    modules = {name.partition(".")[0] for name in names} & BESIDE_TORCH
    helpers = {ROOT / f"{name.replace('.', '/')}.py" for name in names if name.startswith("tests.")}
    return frozenset(modules.union(*(needs(helper) for helper in helpers if helper.is_file() and helper != path)))


def _imported(tree: ast.Module, path: Path) -> Iterator[str]:
    """The absolute names of imported modules, and of names imported from them, which may be modules."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join([*base, *filter(None, [node.module])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _declared(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["NEEDS"]:
            yield from ast.literal_eval(node.value)
