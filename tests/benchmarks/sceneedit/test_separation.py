"""The experts look at pixels alone: neither side of SceneEdit imports the other."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3] / "benchmarks" / "sceneedit"
SHARED = {"vocabulary"}
BOTH = {"__init__", "scene_experts", "toy_data"}  # hand out experts, and scenes


def imported(path):
    """Names of SceneEdit's modules that a file imports, `experts` for any of theirs."""
    inside = path.parent != ROOT
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            level = node.level - inside
            if level == 1:  # of the folder sceneedit
                names = [node.module] if node.module else [alias.name for alias in node.names]
                yield from (name.partition(".")[0] for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if "sceneedit" in alias.name)


def test_experts_import_names_and_letters_only():
    files = sorted((ROOT / "experts").glob("*.py"))
    assert len(files) > 5
    for path in files:
        assert set(imported(path)) <= SHARED, path.name


def test_ground_truth_imports_no_expert():
    files = sorted([*ROOT.glob("*.py"), *ROOT.glob("tiny_editor/*.py")])
    assert len(files) > 20
    for path in files:
        if path.stem not in BOTH:
            assert not {"experts", *BOTH} & set(imported(path)), path.name


def test_the_check_sees_an_import():
    assert "experts" in set(imported(ROOT / "scene_experts.py"))
    assert "scene_experts" in set(imported(ROOT / "toy_data.py"))
