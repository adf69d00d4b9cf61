"""Draws the parts of editcritic and their layers from the import statements.

    python docs/draw_architecture.py

writes docs/architecture.svg. The layers and their order are in pyproject.toml (`tool.editcritic.layers`), which
`tests/test_contracts.py` enforces. An arrow says that a layer imports another layer of its part; arrows that follow
from others are left out. Which parts a part imports stands in its corner.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from html import escape
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
LAYERS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "editcritic"
]["layers"]
NAMES = {"reward": "samples, scores, cards", "cli": "one module a command"}
PURPOSE = {
    "cli": "the command line",
    "benchmarks": "suites and studies",
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


def layer_of(module: str) -> Layer:
    """(part, layer) of a module, named without `editcritic`: the longest layer name that contains it."""
    part, _, below = module.partition(".")
    inside = [name for name in LAYERS[part] if f"{below}.".startswith(f"{name.replace('/', '.')}.")]
    return part, max(inside, key=len, default="*")


def imports() -> tuple[dict[Layer, set[Layer]], dict[str, set[str]]]:
    """Layer -> layers of the same part that it imports; and part -> parts that it imports."""
    within: dict[Layer, set[Layer]] = defaultdict(set)
    across: dict[str, set[str]] = defaultdict(set)
    for part in LAYERS:
        for path in sorted((ROOT / part).rglob("*.py")):
            names = path.relative_to(ROOT).with_suffix("").parts
            package = names[:-1]
            if len(names) == 2 and names[-1] == "__init__":
                continue  # what a part exports says nothing about its layers
            here = layer_of(".".join(package if names[-1] == "__init__" else names))
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.level:
                    origin = [*package[: len(package) - node.level + 1], *filter(None, [node.module])]
                    for alias in node.names:
                        target = ".".join([*origin, alias.name])
                        there = layer_of(target) if target.partition(".")[0] in LAYERS else here
                        if there[0] != part:
                            across[part].add(there[0])
                        elif there != here and target.count("."):
                            within[here].add(there)
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
