"""The picture of the layers is that of today's imports, and the files that documents send a reader to exist."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PATH = re.compile(r"`((?:reward|verifiers|integrations|benchmarks|cli|examples|tests|docs)/[\w./-]*)(?:::(\w+))?`")


def test_the_picture_shows_the_imports() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "draw_architecture.py"))["draw"]()
    picture = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    assert picture == drawn, "run: python docs/draw_architecture.py"


def test_files_and_tests_named_in_documents_exist() -> None:
    """docs/security.md names the test that shows a promise, as in `tests/test_x.py::test_y`."""
    found = {
        (name, test) for document in DOCUMENTS for name, test in PATH.findall(document.read_text(encoding="utf-8"))
    }
    assert len(found) > 100
    assert sorted(name for name, _ in found if not (ROOT / name).exists()) == []
    tests = {name: (ROOT / name).read_text(encoding="utf-8") for name, test in found if test}
    assert [f"{name}::{test}" for name, test in sorted(found) if test and f"def {test}(" not in tests[name]] == []


def test_every_folder_has_a_row_and_its_files():
    table = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Folder by folder")[2]
    parts = ("reward", "verifiers", "integrations", "benchmarks", "cli")
    folders = {path.parent.relative_to(ROOT).as_posix() for part in parts for path in (ROOT / part).rglob("*.py")}
    assert sorted(folder for folder in folders if f"`{folder}/`" not in table) == []
    cells = [line.split("|") for line in table.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    lost = [
        (folders.strip(), name)
        for _, folders, _, files, _ in cells
        for name in re.findall(r"`([\w/]+\.py)`", files)
        if not any((ROOT / folder / name).exists() for folder in re.findall(r"`([\w/]+)/`", folders))
    ]
    assert lost == []
