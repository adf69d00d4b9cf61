"""Modules of the working folder, where a stranger's may lie: only one that the user names is run."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..benchmarks.conftest import Command

MINE = """
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts


def experts():
    return scene_experts()
"""


def installed(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The program as it is installed, in a working folder."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONSAFEPATH", "PYTHONPATH")}
    return subprocess.run(
        [str(Path(sys.executable).parent / "editcritic"), *arguments],
        cwd=folder, env={**environment, **variables}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def lock(experts: str, *more: str) -> tuple[str, ...]:
    """Binds experts and builds a suite's metrics, and scores nothing."""
    return ("bench", "run", "sceneedit?prompts=9", "--experts", experts, "--write-lock", "lock.toml", *more)


def test_a_module_of_the_working_folder_is_found_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "my_experts.py").write_text(MINE)
    (tmp_path / "my_package" / "inner").mkdir(parents=True)
    for folder in ("my_package", "my_package/inner"):
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "my_package" / "inner" / "own.py").write_text("from .. import inner\n" + MINE)
    for name in ("my_experts:experts", "my_package.inner.own:experts"):
        ran = installed(tmp_path, *lock(name))
        assert ran.returncode == 0, ran.stderr
        assert (tmp_path / "lock.toml").exists()
        (tmp_path / "lock.toml").unlink()


def test_nothing_else_of_the_working_folder_is_run_for_it(tmp_path: Path) -> None:
    """Modules that libraries try to import, and those that the named one needs."""
    for name in ("helper", "numpy", "torch", "matplotlib", "onnxruntime"):
        (tmp_path / f"{name}.py").write_text("open('was-run', 'w').close()\nraise SystemExit")
    (tmp_path / "my_experts.py").write_text(MINE)
    assert installed(tmp_path, *lock("my_experts:experts")).returncode == 0
    (tmp_path / "my_experts.py").write_text("import helper\n" + MINE)
    ran = installed(tmp_path, *lock("my_experts:experts"))
    assert ran.returncode == 2
    (line,) = ran.stderr.strip().splitlines()
    assert "cannot find my_experts:experts: No module named 'helper': of the working folder only my_experts" in line
    assert "put PYTHONPATH=. before the command" in line
    assert not (tmp_path / "was-run").exists()
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").write_text("")
    (tmp_path / "my_package" / "own.py").write_text("import helper\n" + MINE)
    ran = installed(tmp_path, *lock("my_package.own:experts"))
    assert "No module named 'helper': of the working folder only my_package is imported" in ran.stderr
    assert not (tmp_path / "was-run").exists()
    (tmp_path / "numpy.py").unlink()
    (tmp_path / "torch.py").unlink()
    (tmp_path / "helper.py").write_text("")
    assert installed(tmp_path, *lock("my_experts:experts"), PYTHONPATH=".").returncode == 0


def test_what_is_installed_comes_first(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("open('was-run', 'w').close()")
    ran = installed(tmp_path, *lock("numpy:nothing"))
    assert (ran.returncode, (tmp_path / "was-run").exists()) == (2, False)
    assert "module 'numpy' has no attribute 'nothing'" in ran.stderr


@pytest.fixture
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editcritic: Command) -> Iterator[Command]:
    """The command in the working folder `tmp_path`, in this process; what it imports from there is forgotten."""
    monkeypatch.chdir(tmp_path)
    yield editcritic
    for name in [name for name, module in sys.modules.items() if is_in(tmp_path, module)]:
        del sys.modules[name]


def is_in(folder: Path, module: object) -> bool:
    return str(getattr(module, "__file__", None)).startswith(str(folder))


def test_a_file_names_it_only_if_it_is_trusted(tmp_path: Path, in_process: Command) -> None:
    (tmp_path / "my_experts.py").write_text("open('was-run', 'w').close()\n" + MINE)
    (tmp_path / "run.toml").write_text('suite = "sceneedit?prompts=9"\nexperts = ["my_experts:experts"]\n')
    command = ("bench", "run", "--config", "run.toml", "--write-lock", "lock.toml")
    ran = in_process(*command)
    assert (ran.exit_code, (tmp_path / "was-run").exists()) == (2, False)
    assert "add `--trust my_experts`" in ran.stderr
    ran = in_process(*command, "--trust", "my_experts")
    assert (ran.exit_code, (tmp_path / "was-run").exists()) == (0, True), ran.stderr


def test_a_module_without_its_function_and_a_function_for_a_role_are_told_how_they_are_written(tmp_path, in_process):
    (tmp_path / "my_experts.py").write_text(MINE)
    for written, told in (
        ("my_experts", "as in my_experts:experts"),
        ("my_experts.py", "as in my_experts:experts"),
        ("judge=my_experts:experts", "without judge=, if it returns role -> expert"),
    ):
        ran = in_process(*lock(written))
        assert ran.exit_code == 2
        (line,) = ran.stderr.strip().splitlines()
        assert told in line


def test_a_module_that_is_nowhere_is_named_as_it_was_typed(tmp_path: Path, in_process: Command) -> None:
    (tmp_path / "nope").mkdir()  # without an __init__.py
    ran = in_process(*lock("nope:x"))
    assert ran.exit_code == 2
    assert ran.stderr.startswith(
        "editcritic: cannot find nope:x: No module named 'nope', neither installed nor in the working folder as "
        "nope.py or nope/__init__.py; "
    )
