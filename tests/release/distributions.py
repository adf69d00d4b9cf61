"""The two archives of a release: built from the tracked files, checked, and equal in what they install."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

from packaging.metadata import Metadata

from editcritic.reward.toml_files import tomllib

ROOT = Path(__file__).parents[2]

PARTS = ("benchmarks", "cli", "integrations", "reward", "verifiers")

# Beside the parts, what the source archive holds: what builds it, and what readers and packagers look for.
SOURCE_FILES = {
    *["CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "NOTICE", "README.md", "SECURITY.md", "pyproject.toml"],
    *["PKG-INFO", "setup.cfg"],  # setuptools writes these
}

# Metadata without which an index or a reader lacks something.
FIELDS = (
    *("name", "version", "summary", "author", "license_expression", "license_files", "keywords", "classifiers"),
    *("requires_python", "description_content_type", "requires_dist", "provides_extra"),
)

# A path of the machine that built it. Documents name /models/..., which is nobody's.
MACHINE_PATH = re.compile(rb"(?<![\w/.:-])/(?:home|root|tmp|work|Users|builds?|workspace)/[\w.-]+")

TIMEOUT_S = 600  # of a build


class ReleaseError(Exception):
    """What is wrong with the release, in a sentence."""


def tracked_copy(folder: Path) -> Path:
    """The files that git tracks, as they are in the tree, copied to `folder`. Raises `ReleaseError`."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=60)
    if listed.returncode:
        raise ReleaseError(f"the release is built from the files of a clone, and git says: {listed.stderr.decode()}")
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file() or source.is_symlink():  # a file that is deleted and not committed is not released
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return folder


def build(tree: Path, out: Path, *options: str) -> tuple[Path, Path]:
    """Build the source archive of a tree, and the wheel from that archive: (archive, wheel). Raises `ReleaseError`."""
    _python_module("build", *options, "--outdir", str(out), str(tree))
    return _only(out, "*.tar.gz"), _only(out, "*.whl")


def build_wheel(tree: Path, out: Path, *options: str) -> Path:
    """Build the wheel from a tree, without the archive between. Raises `ReleaseError`."""
    _python_module("build", *options, "--wheel", "--outdir", str(out), str(tree))
    return _only(out, "*.whl")


def check(tree: Path, archive: Path, wheel: Path) -> Metadata:
    """Check both archives against the tree; the metadata. Raises `ReleaseError` with the first thing that is wrong."""
    _python_module("twine", "check", "--strict", str(archive), str(wheel))  # the description renders
    _python_module("check_wheel_contents", "--config", str(tree / "pyproject.toml"), str(wheel))
    in_tree = part_files(tree)
    in_wheel, in_archive = wheel_files(wheel), archive_files(archive)
    packaged = {f"editcritic/{name}": data for name, data in in_tree.items()}
    information = f"{wheel.name.rpartition('-py3')[0]}.dist-info"
    package = {name: data for name, data in in_wheel.items() if not name.startswith(f"{information}/")}
    _same("the wheel", package, packaged)
    beside = {name for name in in_archive if name.partition("/")[0] not in {*PARTS, "editcritic.egg-info"}}
    if beside != SOURCE_FILES:
        raise ReleaseError(f"beside the packages the archive has {sorted(beside)}, expected {sorted(SOURCE_FILES)}")
    _same("the archive", {name: data for name, data in in_archive.items() if name.partition("/")[0] in PARTS}, in_tree)
    for name in ("LICENSE", "NOTICE"):
        if in_wheel.get(f"{information}/licenses/{name}") != (tree / name).read_bytes():
            raise ReleaseError(f"the wheel lacks {name}, or has another one than the tree")
    for contents in (in_wheel, in_archive):
        check_machine_paths(contents, tree)
    metadata = Metadata.from_email(in_wheel[f"{information}/METADATA"])
    check_metadata(metadata, tree, wheel, archive)
    return metadata


def check_metadata(metadata: Metadata, tree: Path, wheel: Path, archive: Path) -> None:
    """The metadata is complete and says what pyproject.toml does. Raises `ReleaseError`."""
    if missing := [name for name in FIELDS if not getattr(metadata, name)]:
        raise ReleaseError(f"the metadata lacks {', '.join(missing)}")
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if (version := str(metadata.version)) != project["version"]:
        raise ReleaseError(f"the wheel is version {version}, pyproject.toml says {project['version']}")
    for built, name in ((wheel, f"editcritic-{version}-py3-none-any.whl"), (archive, f"editcritic-{version}.tar.gz")):
        if built.name != name:
            raise ReleaseError(f"expected {name}, got {built.name}")
    if str(metadata.description).strip() != (tree / "README.md").read_text(encoding="utf-8").strip():
        raise ReleaseError("the description is not README.md")
    changes = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'")


def check_machine_paths(contents: dict[str, bytes], tree: Path) -> None:
    """No file names a folder of the machine that built it. Raises `ReleaseError`."""
    here = {str(ROOT).encode(), str(tree).encode(), str(Path.home()).encode() + b"/"}
    for name, data in contents.items():
        found = next((place for place in here if place in data), None)
        if found is None and (match := MACHINE_PATH.search(data)) and b"\0" not in data:
            found = match[0]
        if found is not None:
            raise ReleaseError(f"{name} holds {found.decode()}, a path of one machine")


def part_files(tree: Path) -> dict[str, bytes]:
    """The files of the parts by their path below the tree."""
    return {
        path.relative_to(tree).as_posix(): path.read_bytes()
        for part in PARTS
        for path in sorted((tree / part).rglob("*"))
        if path.is_file()
    }


def wheel_files(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel by name."""
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist() if not name.endswith("/")}


def archive_files(archive: Path) -> dict[str, bytes]:
    """The files of a source archive by their path below its only folder. Raises `ReleaseError` on links."""
    contents = {}
    with tarfile.open(archive) as opened:
        for member in opened:
            if member.isdir():
                continue
            data = opened.extractfile(member) if member.isfile() else None
            if data is None:
                raise ReleaseError(f"{archive.name} holds {member.name}, which is no regular file")
            contents[PurePosixPath(*PurePosixPath(member.name).parts[1:]).as_posix()] = data.read()
    return contents


def check_same_wheel(first: Path, second: Path) -> None:
    """Two wheels hold the same files, byte by byte. Raises `ReleaseError`."""
    _same("the wheel of the source archive", wheel_files(first), wheel_files(second))


def _same(what: str, got: dict[str, bytes], expected: dict[str, bytes]) -> None:
    for problem, names in (
        ("holds what is not in the tree", got.keys() - expected.keys()),
        ("lacks files of the tree", expected.keys() - got.keys()),
        ("has other contents than the tree", {name for name in got.keys() & expected if got[name] != expected[name]}),
    ):
        if names:
            shown = ", ".join(sorted(names)[:5])
            raise ReleaseError(f"{what} {problem}, {len(names)} in all: {shown}")


def _python_module(name: str, *arguments: str) -> None:
    command = [sys.executable, "-m", name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command[1:])} failed:\n{(done.stdout + done.stderr)[-3000:]}")


def _only(folder: Path, pattern: str) -> Path:
    built = sorted(folder.glob(pattern))
    if len(built) != 1:
        raise ReleaseError(f"expected one {pattern} in {folder}, got {[path.name for path in built]}: empty it")
    return built[0]
