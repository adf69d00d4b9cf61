"""Draws the parts of editcritic and their layers from the import statements.

    python docs/draw_architecture.py

writes docs/architecture.svg. The layers and their order are those of the contracts in pyproject.toml
(`tool.importlinter`), which import-linter enforces. An arrow says that a layer imports another layer of its part;
arrows that follow from others are left out. Which parts a part imports stands in its corner.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from html import escape
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
_CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
MODULES: dict[str, list[list[str]]] = {
    container.removeprefix("editcritic."): [re.split(r" *[:|] *", layer) for layer in reversed(contract["layers"])]
    for contract in _CONTRACTS
    for container in contract.get("containers", ())
} | {"cli": []}
"""Part -> the modules of each of its layers, lowest first; a part without a contract is one layer."""
NAMES = {"reward": "samples, scores, cards", "cli": "one module a command"}
PURPOSE = {
    "cli": "the command line",
    "benchmarks": "suites and reports",
    "integrations": "other libraries",
    "verifiers": "decisions on scores",
    "reward": "what an edit is worth",
}
COLOURS = {
    "cli": "#b83280",
    "benchmarks": "#6b46c1",
    "integrations": "#b7791f",
    "verifiers": "#2f855a",
    "reward": "#2b6cb0",
}
BOX_WIDTH, BOX_HEIGHT, GAP, LEFT, ROW = 106, 40, 16, 172, 128

Layer = tuple[str, str]


def layer_name(modules: list[str]) -> str:
    """A single module, the folder of several, or `*`."""
    folder, dot, _ = modules[0].partition(".")
    return modules[0].replace(".", "/") if len(modules) == 1 else folder if dot else "*"


LAYERS = {part: [layer_name(modules) for modules in layers] or ["*"] for part, layers in MODULES.items()}


def layer_of(module: str) -> Layer | None:
    """(part, layer) of a module or a name in it, named without `editcritic`; None for a package of several layers."""
    part, _, below = module.partition(".")
    for modules, name in zip(MODULES[part], LAYERS[part], strict=False):
        if any(f"{below}.".startswith(f"{one}.") for one in modules):
            return part, name
    return None if MODULES[part] else (part, "*")


def imports() -> tuple[dict[Layer, set[Layer]], dict[str, set[str]]]:
    """Layer -> layers of the same part that it imports; and part -> parts that it imports.

    Raises ValueError for a module in no layer.
    """
    within: dict[Layer, set[Layer]] = defaultdict(set)
    across: dict[str, set[str]] = defaultdict(set)
    for part in LAYERS:
        for path in sorted((ROOT / part).rglob("*.py")):
            names = path.relative_to(ROOT).with_suffix("").parts
            package = names[:-1]
            module = ".".join(package if names[-1] == "__init__" else names)
            here = layer_of(module)
            if here is None or module == part:
                if names[-1] == "__init__":
                    continue  # what a package exports says nothing about its layers
                raise ValueError(f"pyproject.toml: {module} is in no layer of the contract {part}")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.level:
                    origin = [*package[: len(package) - node.level + 1], *filter(None, [node.module])]
                    for alias in node.names:
                        target = ".".join([*origin, alias.name])
                        there = target.partition(".")[0]
                        if there in LAYERS and there != part:
                            across[part].add(there)
                        elif there == part and (layer := layer_of(target)) not in (None, here):
                            within[here].add(layer)
    return within, across


def reduced(edges: dict[Layer, set[Layer]]) -> dict[Layer, set[Layer]]:
    """Without the arrows that follow from others."""

    def reachable(start: Layer) -> set[Layer]:
        seen: set[Layer] = set()
        waiting = list(edges.get(start, ()))
        while waiting:
            layer = waiting.pop()
            if layer not in seen:
                seen.add(layer)
                waiting += edges.get(layer, ())
        return seen

    return {
        layer: {target for target in targets if not any(target in reachable(other) for other in targets - {target})}
        for layer, targets in edges.items()
    }


def label(part: str, name: str) -> list[str]:
    """A layer's name, in at most two lines."""
    text = NAMES.get(part, "other modules") if name == "*" else name.replace("/", "/ ")
    words, lines = text.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 13 and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [line.replace("/ ", "/") for line in lines]


def draw() -> str:
    """The SVG. Highest part on top; in a part the lowest layer on the left, so that arrows point left and down."""
    within, across = imports()
    arrows = reduced(within)
    order = list(reversed(LAYERS))
    width = LEFT + max(len(layers) for layers in LAYERS.values()) * (BOX_WIDTH + GAP) + 40
    height = len(order) * ROW + 20
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            'font-family="system-ui, sans-serif" font-size="12">'
        ),
        "<title>The parts of editcritic and their layers</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#4a5568"/></marker></defs>'
        ),
    ]
    for row, part in enumerate(order):
        top = 10 + row * ROW
        base = top + ROW - BOX_HEIGHT - 26
        colour = COLOURS[part]
        out.append(
            f'<rect x="8" y="{top}" width="{width - 16}" height="{ROW - 12}" rx="8" fill="{colour}" fill-opacity="0.07"'
            f' stroke="{colour}" stroke-opacity="0.5"/>'
            f'<text x="22" y="{base + 14}" font-size="16" font-weight="600" fill="{colour}">{part}/</text>'
            f'<text x="22" y="{base + 32}" fill="#4a5568">{PURPOSE[part]}</text>'
        )
        used = ", ".join(other for other in order if other in across[part])
        if used:
            text = escape(f"imports {used}")
            out.append(f'<text x="22" y="{top + 20}" fill="#4a5568" font-size="11">{text}</text>')
        places = {name: LEFT + column * (BOX_WIDTH + GAP) for column, name in enumerate(LAYERS[part])}
        for name, x in places.items():
            lines = label(part, name)
            out.append(
                f'<rect x="{x}" y="{base}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" fill="white" '
                f'stroke="{colour}"/>'
            )
            for number, line in enumerate(lines):
                y = base + BOX_HEIGHT / 2 + 4 + 14 * (number - (len(lines) - 1) / 2)
                out.append(f'<text x="{x + BOX_WIDTH / 2}" y="{y:g}" text-anchor="middle">{escape(line)}</text>')
            for _, target in sorted(arrows.get((part, name), ())):
                steps = LAYERS[part].index(name) - LAYERS[part].index(target)
                end = places[target] + BOX_WIDTH
                if steps == 1:
                    path = f"M{x} {base + BOX_HEIGHT / 2}H{end + 2}"
                else:
                    rise = base - min(12 + 7 * steps, ROW - BOX_HEIGHT - 48)
                    path = f"M{x + 18} {base}C{x + 18} {rise} {end - 18} {rise} {end - 18} {base - 2}"
                out.append(
                    f'<path d="{path}" fill="none" stroke="#4a5568" stroke-opacity="0.75" marker-end="url(#tip)"/>'
                )
    return "\n".join([*out, "</svg>"]) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "architecture.svg").write_text(draw(), encoding="utf-8")
