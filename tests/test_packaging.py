"""The installed files match the tree: packages, data, types, entry points and pinned versions."""

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from editcritic.reward.toml_files import tomllib

ROOT = Path(__file__).parents[1]
PARTS = ["reward", "verifiers", "integrations", "benchmarks", "cli"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]


def files(root: Path) -> set[str]:
    """All files of the parts, by their path below `root`; caches and hidden files are excluded."""
    paths = (path.relative_to(root) for part in PARTS for path in (root / part).rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if not any(n[0] == "." or n == "__pycache__" for n in path.parts)}


def shipped(root: Path) -> set[str]:
    """The files of the parts that pyproject.toml installs."""
    shipped = set[Path]()
    for package in SETUPTOOLS["packages"]:
        folder = root.joinpath(*package.split(".")[1:])
        for pattern in ["*.py", *SETUPTOOLS["package-data"].get(package, [])]:
            shipped.update(folder.glob(pattern))
    return {path.relative_to(root).as_posix() for path in shipped}


def test_every_file_is_installed() -> None:
    assert files(ROOT) - shipped(ROOT) == set(), "name its package or its pattern in pyproject.toml"


@pytest.mark.parametrize(
    "stray", ["reward/weights.bin", "reward/metrics/edival/prompts/deep/a.txt", "verifiers/new/__init__.py"]
)
def test_a_file_left_out_is_seen(stray: str, tmp_path: Path) -> None:
    installed = ["reward/__init__.py", "reward/py.typed", "reward/metrics/edival/prompts/a.txt"]
    for name in [*installed, "reward/.DS_Store", stray]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert files(tmp_path) - shipped(tmp_path) == {stray}


def test_packages_links_entry_points_and_extras_are_there():
    expected = {"/".join([*package.split(".")[1:], "__init__.py"]) for package in SETUPTOOLS["packages"]}
    assert expected | {f"{part}/py.typed" for part in PARTS} <= files(ROOT)
    assert SETUPTOOLS["package-dir"] == {f"editcritic.{part}": part for part in PARTS}
    links = sorted((ROOT / "typings" / "editcritic").iterdir())
    assert [link.name for link in links] == sorted(PARTS)
    assert [link.resolve(strict=True) for link in links] == [ROOT / part for part in sorted(PARTS)]
    assert not any(link.readlink().is_absolute() for link in links)
    groups = {"console_scripts": PROJECT["scripts"], **PROJECT["entry-points"]}
    points = [EntryPoint(name, value, group) for group, named in groups.items() for name, value in named.items()]
    assert all(callable(point.load()) for point in points)
    assert {"console_scripts", "editcritic.rewards"} <= {*groups}
    extras = PROJECT["optional-dependencies"]
    (everything,) = (Requirement(text) for text in extras["all"])
    assert everything.name == PROJECT["name"]
    assert everything.extras == {*extras} - {"all", "dev", "docs", "spandrel"}  # the last brings torchvision


def test_a_type_checker_resolves_the_packages(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("".join(f"import editcritic.{part}\n" for part in [*PARTS, "nowhere"]), encoding="utf-8")
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--follow-imports", "skip"]
    run = subprocess.run([*mypy, str(script)], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert re.findall(r'named "(.+?)"', run.stdout) == ["editcritic.nowhere"], run.stdout + run.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel, built from the source archive of a copy of the tree."""
    copy = tmp_path_factory.mktemp("copy")
    for part in PARTS:
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for name in ["pyproject.toml", "README.md", "LICENSE"]:
        shutil.copy(ROOT / name, copy)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    run = subprocess.run(build, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    (built,) = (copy / "dist").glob("*.whl")
    unpacked = tmp_path_factory.mktemp("wheel")
    zipfile.ZipFile(built).extractall(unpacked)
    return unpacked


def test_the_wheel_holds_the_tree_and_imports(wheel):
    namespace = wheel / "editcritic"
    inside = {path.relative_to(namespace).as_posix() for path in namespace.rglob("*") if path.is_file()}
    assert inside == files(ROOT)
    assert [path.name.partition("-")[0] for path in sorted(wheel.iterdir())] == ["editcritic", "editcritic"]
    script = f"import sys; sys.path.insert(0, {str(wheel)!r}); import editcritic.reward as r; print(r.__file__)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=wheel, timeout=120)
    assert run.stdout.strip() == str(wheel / "editcritic" / "reward" / "__init__.py"), run.stderr


def test_pins_lie_in_the_ranges_and_the_lowest_are_their_bounds():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    extras = PROJECT["optional-dependencies"]
    installed = [PROJECT["dependencies"], *(extras[name] for name in ["dev", "ocr", "bench", "hf"])]
    for requirement in (Requirement(text) for texts in installed for text in texts):
        if requirement.marker is None or requirement.marker.evaluate({"python_version": "3.11"}):
            assert pins[canonicalize_name(requirement.name)] in requirement.specifier
    assert pins["torch"] == "2.13.0"
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    lowest = {name: Version(pin).release for name, pin in (line.split("==") for line in lines if line[0] != "#")}
    extras = PROJECT["optional-dependencies"]
    installed = [PROJECT["dependencies"], *(extras[name] for name in ["bench", "judge", "ocr", "serve"])]
    bounds = dict[str, tuple[int, ...]]()
    for requirement in (Requirement(text) for texts in installed for text in texts):
        (bound,) = requirement.specifier
        assert bound.operator == ">=", f"{requirement}: no version above the bound is known to fail"
        bounds[requirement.name] = Version(bound.version).release
    assert {name: pin[: len(bounds.get(name, ()))] for name, pin in lowest.items()} == bounds
