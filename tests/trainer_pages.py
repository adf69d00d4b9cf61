"""Whether the changes that docs/trainers/ asks for fit the trainers' code.

    python -m tests.trainer_pages --check CLONES

A page says what it was tried at, in a line `Tried at: OWNER/NAME@COMMIT (DATE)`, which may name several. The hunks of
its diffs that name a file of the trainer are tried, each for itself, at these commits and at HEAD, the newest that the
clone has; a diff without a file name is for a file of the user's. CLONES has the clones, bare or with a work tree:
OWNER/NAME, OWNER+NAME, NAME or NAME.git, or a folder `repo` below one of these. They are read and not changed.

Exit status 1 if a hunk does not apply, or if that cannot be seen: no clone, or none with that commit.

It is a module of the tests, not of the wheel: they apply the same hunks by `git_apply`, and users have no clones.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "trainers"
_TRIED = re.compile(r"^Tried at: (.+)$", re.MULTILINE)
_COMMIT = re.compile(r"([\w.-]+/[\w.-]+)@([0-9a-f]{7,40}) \((\d{4}-\d\d-\d\d)\)")
_BLOCK = re.compile(r"^```diff\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^--- a/(.+)\n\+\+\+ b/.+\n", re.MULTILINE)
_STARTS = re.compile(r"^@@ -(\d+)(,\d+)? \+\d+")
_OFFSET = re.compile(r"succeeded at \d+ \(offset (-?\d+) lines?\)")


class DoesNotApplyError(Exception):
    """git's reason."""


@dataclass(frozen=True)
class Hunk:
    """file: of the trainer. patch: the hunk with its file names, as `git apply` takes it."""

    file: str
    patch: str


def tried_at(page: str) -> list[tuple[str, str]]:
    """OWNER/NAME and commit of a page's text, in order. Raises ValueError if it names none in the form that is read."""
    lines = _TRIED.findall(page)
    if len(lines) != 1 or _COMMIT.sub("", lines[0]).strip(" ,"):
        raise ValueError(f"a page has one line `Tried at: OWNER/NAME@COMMIT (DATE), ...`, got {lines}")
    return [(repository, commit) for repository, commit, _ in _COMMIT.findall(lines[0])]


def hunks(page: str) -> list[Hunk]:
    """Those of the page's diffs for files of the trainer, in order."""
    return list(_hunks(page))


def _hunks(page: str) -> Iterator[Hunk]:
    for block in _BLOCK.findall(page):
        _, *parts = _FILE.split(block)  # name, hunks, name, hunks ...
        for file, text in zip(parts[::2], parts[1::2], strict=True):
            for hunk in re.split(r"^(?=@@ )", text, flags=re.MULTILINE)[1:]:
                alone = _STARTS.sub(r"@@ -\1\2 +\1", hunk, count=1)  # no lines of other hunks before it
                yield Hunk(file, f"--- a/{file}\n+++ b/{file}\n{alone}")


def git_apply(patch: str, files: Mapping[str, bytes], *, check: bool = False) -> tuple[dict[str, bytes], str]:
    """The files after `git apply --ignore-whitespace`, and what git says of moved hunks. files: by path.

    check: only whether it applies (`--check`). Raises `DoesNotApplyError`.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        command = ["git", "apply", "--verbose", "--ignore-whitespace", "--whitespace=nowarn", *["--check"] * check, "-"]
        done = subprocess.run(
            command, cwd=folder, input=patch.encode(), capture_output=True, check=False, env=_environment(folder)
        )
        output = done.stderr.decode(errors="replace")
        if done.returncode:
            errors = [line.removeprefix("error: ") for line in output.splitlines() if line.startswith("error: ")]
            reasons = [error for error in errors if error != "while searching for:"]  # what it sought, with --verbose
            raise DoesNotApplyError("; ".join(reasons) or output.strip())
        return {name: Path(folder, name).read_bytes() for name in files}, output


def _environment(folder: str = "") -> dict[str, str]:
    """Of a git that knows no repository but the one it is given, speaks English, and fetches nothing."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ceiling = {"GIT_CEILING_DIRECTORIES": str(Path(folder).resolve().parent)} if folder else {}
    return {**own, **ceiling, "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"}


def _git(clone: Path, *arguments: str) -> bytes | None:
    """What a command that only reads prints, or None if it fails."""
    git_dir = clone / ".git" if (clone / ".git").exists() else clone
    command = ["git", f"--git-dir={git_dir}", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, env=_environment())
    return None if done.returncode else done.stdout


def _clone_of(repository: str, clones: Path) -> Path | None:
    owner, name = repository.split("/")
    folders = [clones / owner / name, clones / f"{owner}+{name}", clones / name, clones / f"{name}.git"]
    for folder in (clone for name in folders for clone in (name / "repo", name)):
        if folder.is_dir() and _git(folder, "rev-parse", "--verify", "HEAD^{commit}") is not None:
            return folder
    return None


def check_page(page: str, clones: Path) -> tuple[list[str], bool]:
    """What is to be said of a page, line by line, and whether all of its hunks apply wherever they were to be tried."""
    lines, fits, found = [], True, hunks(page)
    newest: dict[Path, str] = {}
    tried: set[str | None] = set()
    for repository, commit in tried_at(page):
        clone = _clone_of(repository, clones)
        if clone is None:
            lines.append(f"  {repository}: no clone")
            fits = False
            continue
        full = _resolved(clone, commit)
        if full is None:
            lines.append(f"  {repository} at {commit} (tried): not in the clone")
            fits = False
        else:
            fits &= _check_hunks(f"{repository} at {commit} (tried)", found, clone, full, lines)
        tried.add(full)
        newest[clone] = repository
    for clone, repository in newest.items():
        head = str(_resolved(clone, "HEAD"))
        if head not in tried:
            fits &= _check_hunks(f"{repository} at {head[:7]} (newest)", found, clone, head, lines)
    return lines, fits


def _resolved(clone: Path, commit: str) -> str | None:
    name = _git(clone, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    return None if name is None else name.decode().strip()


def _check_hunks(title: str, found: list[Hunk], clone: Path, commit: str, lines: list[str]) -> bool:
    problems, moved = [], 0
    for number, hunk in enumerate(found, 1):
        content = _git(clone, "cat-file", "blob", f"{commit}:{hunk.file}")
        try:
            if content is None:
                raise DoesNotApplyError("there is no such file")
            _, output = git_apply(hunk.patch, {hunk.file: content}, check=True)
            moved += bool(_OFFSET.search(output))
        except DoesNotApplyError as error:
            problems.append(f"    hunk {number}, {hunk.file}: {error}")
    count = f"{len(found) - len(problems)} of {len(found)} hunks apply" if found else "no hunks"
    lines += [f"  {title}: {count}{f', {moved} at other lines' if moved else ''}", *problems]
    return not problems


def main(arguments: list[str] | None = None, pages: Path = PAGES) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trainer_pages", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", type=Path, required=True, metavar="CLONES", help="folder with clones of the trainers"
    )
    clones: Path = parser.parse_args(arguments).check
    fits = True
    for path in sorted(pages.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if _TRIED.search(text):
            lines, fit = check_page(text, clones)
            sys.stdout.write("\n".join([path.name, *lines, ""]))
            fits &= fit
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
