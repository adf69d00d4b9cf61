"""What is installed alone, and what is run there: each extra, none, and other Pythons."""

from __future__ import annotations

import re
from dataclasses import dataclass

from editcritic.reward.toml_files import tomllib

from .distributions import ROOT


@dataclass(frozen=True)
class Installation:
    """One fresh environment.

    extra: empty for none. python: a version, or empty for the one that runs the check. constraints: the file with the
    versions. is_heavy: brings torch, Ray or gigabytes.
    """

    extra: str
    python: str = ""
    constraints: str = "constraints.txt"
    is_heavy: bool = False

    @property
    def name(self) -> str:
        return " ".join(filter(None, [self.extra or "none", self.python]))

    @property
    def examples(self) -> list[str]:
        """The scripts of examples/ that say that they need this extra and no other."""
        return [
            path.stem
            for path in sorted((ROOT / "examples").glob("*.py"))
            if self.extra and f"pip install 'editcritic[{self.extra}]'" in path.read_text(encoding="utf-8")
        ]


HEAVY = {"hf", "quantised", "diffusers", "trl", "ray", "spandrel", "all"}


def extras() -> list[str]:
    """The extras of pyproject.toml, in its order."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["optional-dependencies"]]


def pythons() -> list[str]:
    """The Pythons that pyproject.toml names, oldest first."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def installations() -> list[Installation]:
    """Nothing, and each extra, with this Python; then those that need no torch, with the oldest and the newest one."""
    alone = [Installation(extra, is_heavy=extra in HEAVY) for extra in ["", *extras()]]
    oldest, newest = pythons()[0], pythons()[-1]
    light = ["", "ocr", "bench", "serve", "judge"]
    others = [Installation(extra, oldest, "constraints-lowest.txt") for extra in light]
    return [*alone, *others, *(Installation(extra, newest) for extra in [*light, "app"])]
