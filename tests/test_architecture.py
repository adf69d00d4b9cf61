"""The picture of the layers is that of today's imports, and the files that documents send a reader to exist."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PATH = re.compile(r"`((?:reward|verifiers|integrations|benchmarks|cli|examples|tests|docs)/[\w./-]*)`")


def test_the_picture_shows_the_imports() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "draw_architecture.py"))["draw"]()
    picture = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    assert picture == drawn, "run: python docs/draw_architecture.py"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_named_in_documents_exist(document: Path) -> None:
    named = PATH.findall(document.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_documents_name_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(PATH.findall(text)) > 30
