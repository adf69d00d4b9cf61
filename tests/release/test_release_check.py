"""The check of a release sees what is wrong with one, and the wheel keeps what extras promise.

What needs an index, each extra alone in a fresh environment, is in `make release-check`. Here the wheel is installed
beside the packages of this environment.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import licences
from .check_installation import _keep_promise
from .distributions import (
    ROOT,
    ReleaseError,
    build,
    build_wheel,
    check,
    check_machine_paths,
    check_same_wheel,
    tracked_copy,
)
from .environments import Environment, fresh_environment, interpreter
from .installations import HEAVY, Installation, extras, installations, pythons

NEEDS = ("torch",)  # extras of this environment


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tracked_copy(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def built(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tree, tmp_path_factory.mktemp("dist"), "--no-isolation")


def repacked(wheel: Path, folder: Path, changed: dict[str, bytes | None]) -> Path:
    """The wheel with other contents of these files; None takes one out."""
    copy = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            if (data := changed.get(name, old.read(name))) is not None:
                new.writestr(name, data)
        for name in changed.keys() - set(old.namelist()):
            new.writestr(name, changed[name] or b"")
    return copy


@pytest.mark.slow
def test_the_archives_are_in_order(tree: Path, built: tuple[Path, Path], tmp_path: Path) -> None:
    metadata = check(tree, *built)
    assert str(metadata.license_expression) == "Apache-2.0"
    assert set(metadata.license_files or []) == {"LICENSE", "NOTICE"}
    check_same_wheel(built[1], build_wheel(tree, tmp_path, "--no-isolation"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("editcritic/reward/notes.txt", b"x", "holds what is not in the tree, 1 in all: editcritic/reward/notes.txt"),
        ("editcritic/reward/py.typed", None, "lacks files of the tree, 1 in all: editcritic/reward/py.typed"),
        ("editcritic/reward/score.py", b"", "has other contents than the tree, 1 in all: editcritic/reward/score.py"),
        ("editcritic-{version}.dist-info/licenses/NOTICE", None, "lacks NOTICE"),
        ("conftest.py", b"", "holds what is not in the tree, 1 in all: conftest.py"),
    ],
)
def test_a_wheel_that_is_not_the_tree_is_seen(
    name: str, data: bytes | None, problem: str, tree: Path, built: tuple[Path, Path], tmp_path: Path
) -> None:
    archive, wheel = built
    name = name.format(version=wheel.name.split("-")[1])
    with pytest.raises(ReleaseError, match=problem):
        check(tree, archive, repacked(wheel, tmp_path, {name: data}))


@pytest.mark.slow
def test_a_stray_file_of_the_archive_is_seen(tree: Path, built: tuple[Path, Path], tmp_path: Path) -> None:
    archive, wheel = built
    with tarfile.open(archive) as old:
        old.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    (folder / "notes.txt").write_text("x", encoding="utf-8")
    stray = tmp_path / archive.name
    with tarfile.open(stray, "w:gz") as new:
        new.add(folder, folder.name)
    with pytest.raises(ReleaseError, match=r"beside the packages the archive has .*'notes\.txt'"):
        check(tree, stray, wheel)


@pytest.mark.parametrize("text", [f"see {ROOT}/x", "/home/somebody/models", "/tmp/pip-build-1/x"])
def test_a_path_of_a_machine_is_seen(text: str, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="a path of one machine"):
        check_machine_paths({"editcritic/a.txt": text.encode()}, tmp_path)

    # paths of nobody are none
    check_machine_paths({"a.py": b"/models/my-dino, /v1/score and https://host/home/page"}, tmp_path)


@pytest.fixture(scope="module")
def environment(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """The wheel in an environment that sees the packages of this one behind its own."""
    base: str = getattr(sys, "_base_executable", sys.executable)
    with fresh_environment(base, tmp_path_factory.mktemp("wheel") / "new") as fresh:
        fresh.pip("install", "--no-index", "--no-deps", "--quiet", str(built[1]))
        (packages,) = fresh.folder.glob("lib/python*/site-packages")
        (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
        yield fresh


@pytest.mark.slow
def test_metadata_is_read_by_no_pip_that_is_too_old_for_it(environment: Environment) -> None:
    found = {one["name"].lower(): one for one in environment.distributions()}
    assert "editcritic" not in found
    assert found["pytest"]["license_expression"] == "MIT"
    assert "License :: OSI Approved :: BSD License" in found["mpmath"]["classifier"]


@pytest.mark.slow
@pytest.mark.parametrize("extra", [name for name in extras() if name not in {*HEAVY, "dev", "docs"}])
def test_the_wheel_keeps_what_an_extra_promises(
    extra: str, environment: Environment, built: tuple[Path, Path], tmp_path: Path
) -> None:
    apart = Environment(environment.folder, tmp_path)
    (tmp_path / "home").mkdir()
    _keep_promise(Installation(extra), apart, built[1])


@pytest.mark.slow
def test_a_broken_promise_is_seen(environment: Environment, built: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    other = built[1].with_name(built[1].name.replace("editcritic-", "editcritic-9"))
    with pytest.raises(ReleaseError, match="expected 9"):
        _keep_promise(Installation("judge"), Environment(environment.folder, tmp_path), other)


def test_every_extra_has_a_promise_and_an_installation() -> None:
    promises = {path.stem for path in Path(__file__).with_name("promises").glob("*.py")}
    assert promises - {"base", "commands", "installed"} == {*extras()}
    alone = [one.extra for one in installations() if not one.python]
    assert alone == ["", *extras()]
    assert {one.python for one in installations()} == {"", pythons()[0], pythons()[-1]}


def test_an_example_runs_where_its_extra_is_alone() -> None:
    assert {one.extra: one.examples for one in installations() if one.examples and not one.python} == {
        "diffusers": ["best_of_n_kontext"]
    }


def test_this_python_is_found_and_another_is_not() -> None:
    found = interpreter("{}.{}".format(*sys.version_info))
    assert found is not None
    said = subprocess.run([found, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
    assert said.stdout.strip() == str(sys.version_info[:2])
    assert interpreter("2.99") is None


@pytest.mark.parametrize(
    ("metadata", "licence", "kind"),
    [
        ({"license_expression": "Apache-2.0"}, "Apache-2.0", ""),
        ({"license_expression": "MPL-2.0 AND MIT"}, "MPL-2.0 AND MIT", "weak"),
        ({"license_expression": "GPL-3.0-only OR MIT"}, "GPL-3.0-only OR MIT", ""),
        ({"license_expression": "MPL-2.0 AND (Apache-2.0 OR MIT)"}, "MPL-2.0 AND (Apache-2.0 OR MIT)", "weak"),
        ({"license_expression": "MIT OR (GPL-3.0 AND MIT)"}, "MIT OR (GPL-3.0 AND MIT)", ""),
        ({"license_expression": "AGPL-3.0-or-later"}, "AGPL-3.0-or-later", "strong"),
        ({"classifier": ["License :: OSI Approved :: MIT License"]}, "MIT", ""),
        ({"classifier": ["License :: OSI Approved :: BSD License"], "license": "BSD-3-Clause"}, "BSD-3-Clause", ""),
        ({"classifier": ["License :: OSI Approved :: GNU Lesser General Public License v3 (LGPLv3)"]},
         "GNU Lesser General Public License v3 (LGPLv3)", "weak"),
        ({"license": "GNU General Public License v3"}, "GNU General Public License v3", "strong"),
        ({"license_expression": "GPL-3.0 WITH GCC-exception-3.1"}, "GPL-3.0 WITH GCC-exception-3.1", ""),
        ({"classifier": ["License :: OSI Approved :: BSD License"], "license": "Copyright (c) 2015, its authors\nRe"},
         "BSD", ""),
        ({"license": "=====\nThe licence"}, "not stated", ""),
        ({}, "not stated", ""),
    ],
)  # fmt: skip
def test_licences_are_read_from_metadata(metadata: dict[str, object], licence: str, kind: str) -> None:
    assert licences.licence_of(metadata) == licence
    assert licences.copyleft(licence) == kind


def test_a_package_is_listed_with_the_extras_that_bring_it() -> None:
    numpy, fastapi = {"name": "numpy", "license_expression": "BSD-3-Clause"}, {"name": "FastAPI", "license": "MIT"}
    cuda = [{"name": name, "license": "Other"} for name in ("nvidia-cublas", "cuda_toolkit", "triton")]
    table = licences.table({"": [numpy], "serve": [numpy, fastapi, *cuda]})
    assert table.splitlines()[2:] == ["| fastapi | MIT |  | serve |", "| numpy | BSD-3-Clause |  | base |"]
