"""Nothing that others build on goes by accident: docs/stability.md says how it may."""

import json
from collections.abc import Iterator
from importlib.metadata import requires, version
from typing import Any

import pytest

from .public_interface import PACKAGES, PROJECT, RECORD, ROOT, public_interface

NEEDS = ("torch",)  # what adapters export is imported for its parameters

STABILITY = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
RECORD_ANEW = "python -m tests.stability.public_interface records what is added, or goes as docs/stability.md says"


@pytest.fixture(scope="module")
def now() -> Any:
    return json.loads(json.dumps(public_interface()))


@pytest.fixture(scope="module")
def before() -> Any:
    return json.loads(RECORD.read_text(encoding="utf-8"))


def gone(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """What was public, and is not, or is called in another way. Parameters may be added, if they can be left out."""
    if isinstance(before, dict):
        for name, value in before.items():
            if not isinstance(now, dict) or name not in now:
                yield f"{path} {name}".strip()
            else:
                yield from gone(value, now[name], f"{path} {name}".strip())
    elif isinstance(before, list) and isinstance(now, list):
        optional = {name.rstrip("=") for name in now}
        yield from (f"{path} {name}" for name in before if name not in now and name.rstrip("=") not in optional)
        if path.endswith(" call"):
            yield from _calls_broken(before, now, path)
    elif before != now:
        yield f"{path} was {before}, and is {now}"


def _calls_broken(before: list[str], now: list[str], path: str) -> Iterator[str]:
    yield from (f"{path} requires {name}" for name in now if name[-1] != "=" and name not in before)
    order = [[name.rstrip("=") for name in names] for names in (before, now)]
    kept = [name for name in order[1] if name in order[0]]
    if kept != [name for name in order[0] if name in kept]:
        yield f"{path} has another order of parameters"


def test_nothing_public_is_gone(before: Any, now: Any) -> None:
    assert list(gone(before, now)) == [], RECORD_ANEW


def test_the_record_is_complete(before: Any, now: Any) -> None:
    assert now == before, RECORD_ANEW


def calls(*parameters: str) -> Any:
    """The interface of one function."""
    return {"names": {"p": {"f": {"call": list(parameters)}}}}


@pytest.mark.parametrize(
    ("was", "is_now", "seen"),
    [
        (calls("a"), {"names": {"p": {}}}, ["names p f"]),
        (calls("a", "b="), calls("a"), ["names p f call b="]),
        (calls("a"), calls("a", "b"), ["names p f call requires b"]),
        (calls("a="), calls("a"), ["names p f call requires a"]),
        (calls("a", "b"), calls("b", "a"), ["names p f call has another order of parameters"]),
        (
            {"names": {"p": {"C": {"members": ["m"]}}}},
            {"names": {"p": {"C": {"members": []}}}},
            ["names p C members m"],
        ),
        ({"commands": {"score": ["--json", "-o"]}}, {"commands": {"score": ["-o"]}}, ["commands score --json"]),
        ({"schemas": {"a": 1}}, {"schemas": {"a": 2}}, ["schemas a was 1, and is 2"]),
        # what is added breaks nobody
        (calls("a"), calls("a", "b="), []),
        (calls("a", "b"), calls("a", "b="), []),
        (calls("a"), {"names": {"p": {**calls("a")["names"]["p"], "g": {}}}}, []),
        ({"commands": {"score": ["-o"]}}, {"commands": {"rank": [], "score": ["--json", "-o"]}}, []),
    ],
)
def test_what_is_gone_is_seen(was: Any, is_now: Any, seen: list[str]) -> None:
    assert list(gone(was, is_now)) == seen


def test_the_document_names_what_is_recorded(now: Any) -> None:
    names = [*(f"`editcritic.{package}`" for package in PACKAGES), *(f"`{group}`" for group in now["entry points"])]
    assert [name for name in names if name not in STABILITY] == []
    rows = {f"| `{module}.py` | {number} |" for module, number in now["schemas"].items()}
    assert [row for row in sorted(rows) if row not in STABILITY] == [], "docs/stability.md has other schema numbers"


def test_the_document_names_the_pythons() -> None:
    minors = [text.rpartition(" ")[2] for text in PROJECT["project"]["classifiers"] if "Python :: 3." in text]
    assert f"Python {minors[0]} to {minors[-1]}" in STABILITY


def test_one_place_has_the_version() -> None:
    stated = PROJECT["project"]["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert version("editcritic") == stated, "what is installed is older: `make` installs it anew"
    assert f"\nversion: {stated}\n" in citation
    date = citation.partition("\ndate-released: ")[2][:10]
    assert f"\n## [{stated}] - {date}\n" in changelog
    assert requires("editcritic")
