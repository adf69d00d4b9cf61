"""Every Python and shell block of README.md, CONTRIBUTING.md and docs/ runs, in order.

The blocks of a document run in one process, in a folder of its own. Python blocks share their names. Each shell block
starts in the document's folder, which holds the files of examples/data as `data`, and stops at its first failing
command. In a `console` block, lines after `$ ` are commands and the others their output, in which `...` stands for
anything; a command shown without output may print what it likes.

Only set-up is skipped, by a comment in front of the block: `<!-- test: skip because it installs -->`.
"""

import doctest
import json
import linecache
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TIMEOUT_S = 600  # a busy machine takes some documents minutes
TRAINING = {
    *["docs/compare.md", "docs/editor.md", "docs/selection.md", "docs/suites.md", "docs/trainers/diffusion_trainer.md"],
    *["docs/trainers/trl.md", "docs/training.md"],
}
"""These run or train the tiny editor for most of a minute: `make test-all`. The README runs it in `make test`."""
WITH_TORCH = TRAINING | {"README.md", "docs/experts.md", "docs/loading.md"}
"""These load models: they are left out where there is no torch."""
SHELLS = {"bash", "console", "sh"}
RUN = SHELLS | {"python"}
SHOWN = {"csv", "diff", "html", "json", "jsonl", "math", "mermaid", "text", "toml", "yaml"}
SET_UP = {"cd", "git", "make", "pip"}


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, the line its text begins on, and why it is skipped, if it is."""

    language: str
    text: str
    line: int
    skip: str | None


def blocks(markdown: str) -> Iterator[Block]:
    """The fenced blocks of a document, in order. Raises ValueError on a fence or a skip that is not understood."""
    lines = iter(enumerate(markdown.splitlines(), start=1))
    skip: str | None = None
    for number, line in lines:
        if comment := re.fullmatch(r"\s*<!--\s*test:(.*)-->\s*", line):
            reason = re.fullmatch(r"\s*skip because\s+(\S.*?)\s*", comment[1])
            if reason is None or skip is not None:
                raise ValueError(f"line {number}: expected one `<!-- test: skip because REASON -->` before a block")
            skip = reason[1]
        elif fence := re.fullmatch(r"\s*(`{3,}|~{3,})\s*(\S*).*", line):
            if fence[2] not in RUN | SHOWN:
                raise ValueError(f"line {number}: a block of {fence[2]!r}: say one of {', '.join(sorted(RUN | SHOWN))}")
            body = list[str]()
            for _, inner in lines:
                if inner.strip().startswith(fence[1]) and not inner.strip().strip(fence[1][0]):
                    break
                body.append(inner)
            else:
                raise ValueError(f"line {number}: this block never ends")
            yield Block(fence[2], textwrap.dedent("\n".join(body)) + "\n", number + 1, skip)
            skip = None
        elif line.strip() and skip is not None:
            raise ValueError(f"line {number}: the skip above belongs right before a block")
    if skip is not None:
        raise ValueError("the last skip has no block after it")


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a shell block, each with the output shown below it."""
    if block.language != "console":
        return [(block.text, "")]
    first, *rest = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not first.strip(), f"line {block.line}: output before the first `$ `"
    parts = (re.fullmatch(r"((?:.*\\\n)*.*\n)((?s:.*))", part) for part in rest)
    return [(part[1], part[2]) for part in parts if part is not None]


def only_sets_up(block: Block) -> bool:
    """Whether a block has no other commands than those that fetch and install."""
    if block.language not in SHELLS:
        return False
    code = "\n".join(command for command, _ in commands(block)).replace("\\\n", " ")
    pieces = re.split(r"[;|&\n]", re.sub(r"(^|\s)#.*", "", code))
    return not re.search(r"\$\(|`|[<>]\(", code) and {piece.split()[0] for piece in pieces if piece.strip()} <= SET_UP


def run_shell(block: Block, folder: Path) -> None:
    """Run the commands in one shell and compare what each prints with what the document shows."""
    mark = "-- end of a command --"
    asked = commands(block)
    script = "".join(f"{command}\necho; echo '{mark}'\n" for command, _ in asked)
    run = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, stdout=subprocess.PIPE, text=True)
    printed = run.stdout.split(f"\n{mark}\n")
    assert run.returncode == 0, (
        f"line {block.line}: exit {run.returncode} from\n{asked[len(printed) - 1][0]}{printed[-1]}"
    )
    assert len(printed) == len(asked) + 1, f"line {block.line}: the block ends the shell, so that the rest never runs"
    for (command, shown), got in zip(asked, printed, strict=False):
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if shown.strip() and not doctest.OutputChecker().check_output(shown, got, options):
            raise AssertionError(f"line {block.line}: shown below\n{command}is\n{shown}and it prints\n{got}")


def run_document(name: str, found: list[Block], folder: Path) -> None:
    """Run blocks in this process, which becomes the document's: its blocks are `__main__`."""
    module = sys.modules["__main__"] = ModuleType("__main__")
    os.chdir(folder)
    for block in found:
        if block.language in SHELLS:
            run_shell(block, folder)
            continue
        source = "\n" * (block.line - 1) + block.text  # tracebacks then give the document's own lines
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        try:
            exec(compile(source, name, "exec"), module.__dict__)
        except SystemExit as error:
            raise AssertionError(
                f"{name}, line {block.line}: the block ends the process, so that the rest never runs"
            ) from error


def check_document(document: Path, folder: Path, timeout_s: float = TIMEOUT_S) -> None:
    """Run all blocks of a document in a new process, in `folder`. Raises AssertionError with what went wrong."""
    found = list(blocks(document.read_text(encoding="utf-8")))
    for block in found:
        assert block.skip is None or only_sets_up(block), (
            f"line {block.line}: only {', '.join(sorted(SET_UP))} is skipped"
        )
    if (data := ROOT / "examples" / "data").exists():
        shutil.copytree(data, folder / "data")
    work = {
        "name": document.name,
        "folder": str(folder),
        "blocks": [asdict(b) for b in found if b.skip is None and b.language in RUN],
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    try:
        run = subprocess.run(
            [sys.executable, __file__], input=json.dumps(work), text=True, timeout=timeout_s,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "NO_COLOR": "1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"{document.name} did not end within {timeout_s} s") from error
    assert run.returncode == 0, f"{document.name}:\n{run.stdout}"


def documents() -> Iterator[Any]:
    for document in DOCUMENTS:
        name = document.relative_to(ROOT).as_posix()
        if name in WITH_TORCH and find_spec("torch") is None:
            continue
        yield pytest.param(document, id=name, marks=[pytest.mark.slow] if name in TRAINING else [])


@pytest.mark.parametrize("document", list(documents()))
def test_every_block_runs(document: Path, tmp_path: Path) -> None:
    check_document(document, tmp_path)


SKIP = "<!-- test: skip because it installs -->\n\n"


def write(folder: Path, *fenced: tuple[str, str], comment: str = "") -> Path:
    document = folder / "document.md"
    text = "\n".join(f"```{language}\n{text}\n```\n" for language, text in fenced)
    document.write_text(comment + text, encoding="utf-8")
    return document


def test_blocks_run_in_order_and_share_names_and_files(tmp_path: Path) -> None:
    document = write(
        tmp_path,
        ("python", "from dataclasses import dataclass\n@dataclass\nclass A:\n    n: int"),
        ("sh", "echo 7 > n\nmkdir deep\ncd deep"),
        ("python", "import pickle\na = pickle.loads(pickle.dumps(A(int(open('n').read()))))"),
        ("console", "$ mkdir other && \\\n  cd other\n$ pwd | sed 's:.*/::'\nother\n$ cat ../n; echo\n...7\n"),
        ("python", "assert a == A(7)"),
    )
    check_document(document, tmp_path)


@pytest.mark.parametrize(
    ("language", "text", "says"),
    [
        ("python", "x = 1\nassert x == 2", "line 3"),
        ("python", "x = nowhere", "x = nowhere"),
        ("python", "raise SystemExit(0)", "the rest never runs"),
        ("sh", "false\ntrue", "exit 1"),
        ("bash", "false | true", "exit 1"),
        ("bash", "echo $unset", "exit 1"),
        ("console", "$ echo one\n$ echo two\n2", "it prints"),
        ("console", "$ true\n$ false\n", "false"),
        ("sh", "exit 0\nfalse", "the rest never runs"),
        ("console", "echo one", "before the first"),
        ("python", "import time\ntime.sleep(60)", "did not end"),
    ],
)
def test_a_block_that_does_not_do_what_it_says_fails(language: str, text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        check_document(write(tmp_path, (language, text)), tmp_path, timeout_s=1 if "sleep" in text else 60)


def test_set_up_is_skipped(tmp_path: Path) -> None:
    text = "git clone there && cd there  # once\n# then\nmake nothing-there\npip install --no-such-flag \\\n    that"
    check_document(write(tmp_path, ("sh", text), comment=SKIP), tmp_path)


@pytest.mark.parametrize(
    "text", ["editcritic score", "make a; rm -r b", "pip install a && python b", "cd $(b)", "git a | b"]
)
def test_nothing_but_set_up_is_skipped(text: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="only cd, git, make, pip is skipped"):
        check_document(write(tmp_path, ("sh", text), comment=SKIP), tmp_path)


@pytest.mark.parametrize(
    ("markdown", "says"),
    [
        ("<!-- test: skip -->\n```sh\nmake\n```", "line 1: expected"),
        ("<!-- test: skip because -->\n```sh\nmake\n```", "line 1: expected"),
        ("<!-- test: skip because a -->\ntext\n```sh\nmake\n```", "line 2: the skip"),
        ("<!-- test: skip because a -->\n", "no block after"),
        ("```\nmake\n```", "line 1: a block of ''"),
        ("```py\n1\n```", "line 1: a block of 'py'"),
        ("\n```python\n1\n", "line 2: this block never ends"),
    ],
)
def test_a_block_that_could_escape_is_refused(markdown: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        list(blocks(markdown))


if __name__ == "__main__":
    given = json.load(sys.stdin)
    run_document(given["name"], [Block(**block) for block in given["blocks"]], Path(given["folder"]))
