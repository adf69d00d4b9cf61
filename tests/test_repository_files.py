"""What a host of repositories, an editor and pre-commit read: valid, and of one mind with the Makefile."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from editcritic.reward.toml_files import tomllib

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(set((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) - {ROOT / ".github/ISSUE_TEMPLATE/config.yml"})
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def loaded(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path)


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in loaded(workflow)["jobs"].values() for step in job["steps"]]


def made(text: str) -> set[str]:
    """The targets that a command makes."""
    return set(re.findall(r"\bmake ([a-z-]+)", text))


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("custom.github-workflows-require-timeout", WORKFLOWS),
        ("vendor.github-issue-forms", FORMS),
        ("vendor.github-issue-config", [ROOT / ".github/ISSUE_TEMPLATE/config.yml"]),
    ],
)
def test_files_have_the_form_that_the_host_reads(schema: str, files: list[Path]) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    run = subprocess.run(check, capture_output=True, text=True, timeout=120)
    assert files
    assert run.returncode == 0, run.stdout + run.stderr


def test_workflows_hand_nothing_to_strangers() -> None:
    zizmor = [str(Path(sys.executable).parent / "zizmor"), "--offline", "--no-progress", "--persona", "pedantic"]
    run = subprocess.run([*zizmor, *map(str, WORKFLOWS)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr


def test_workflows_and_pre_commit_run_what_the_makefile_has():
    commands = {path.stem: "\n".join(step.get("run", "") for step in steps(path)) for path in WORKFLOWS}
    assert made(commands["ci"]) == {"check", "test", "test-rest", "test-lowest", "docs"}
    assert made(commands["release"]) == {"check", "test-all", "docs", "release-check"}
    assert set().union(*(made(text) for text in commands.values())) <= TARGETS
    jobs = loaded(ROOT / ".github/workflows/ci.yml")["jobs"]
    tested = set(jobs["test"]["strategy"]["matrix"]["python"])
    tested |= {version for step in jobs["lowest"]["steps"] if (version := step.get("with", {}).get("python-version"))}
    classifiers = PYPROJECT["project"]["classifiers"]
    promised = {match[1] for text in classifiers if (match := re.fullmatch(r".*Python :: (3\.\d+)", text))}
    assert tested == promised
    config = loaded(ROOT / ".pre-commit-config.yaml")
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    steps_of_check = re.search(r"^check: (.+)$", MAKEFILE, re.MULTILINE)
    assert steps_of_check is not None
    assert [hook["entry"] for hook in repository["hooks"]] == [f"make {step}" for step in steps_of_check[1].split()]
    assert {stage for hook in repository["hooks"] for stage in hook["stages"]} == {
        *config["default_install_hook_types"]
    }
    settings = (ROOT / ".editorconfig").read_text(encoding="utf-8")
    python = re.search(r"^\[\*\.\{py,toml\}\]\n(?:\w+ = \S+\n)*?max_line_length = (\d+)$", settings, re.MULTILINE)
    assert python is not None
    assert int(python[1]) == PYPROJECT["tool"]["ruff"]["line-length"]


def test_no_text_file_has_what_the_editor_would_change() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, cwd=ROOT, timeout=60)
    if listed.returncode:
        pytest.skip("not a clone")
    kinds = {".py", ".md", ".toml", ".yml", ".yaml", ".js", ".css", ".html"}
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if Path(name).suffix in kinds]
    odd = [
        str(path.relative_to(ROOT))
        for path in paths
        if path.is_file() and "golden" not in path.parts and _would_change(path.read_bytes())
    ]
    assert odd == []


def _would_change(data: bytes) -> bool:
    is_ended = not data or data.endswith(b"\n")
    return not is_ended or b"\r" in data or re.search(rb"[ \t]+$", data, re.MULTILINE) is not None
