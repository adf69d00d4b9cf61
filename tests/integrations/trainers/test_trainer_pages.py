"""The check of trainers' pages on made repositories, and what it needs the pages to say."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ...trainer_pages import PAGES, main, tried_at
from .trainer_cases import documented

SCRIPT = "# Trains.\n\nimport one\nimport two\n\n\ndef train(rewards):\n    mean = rewards.mean()\n    return mean\n"
PAGE = """# Made

Tried at: someone/made@{commit} (2026-11-28)

```diff
--- a/src/train.py
+++ b/src/train.py
@@ -3,2 +3,3 @@
 import one
+import reward
 import two
@@ -8,2 +9,2 @@
-    mean = rewards.mean()
+    mean = rewards.nanmean()
     return mean
```

```diff
+    config.reward = 1.0
```
"""


def git(folder: Path, *arguments: str) -> str:
    """Of a repository of the test's, whatever the machine's settings are."""
    identity = {
        f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **identity}
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **settings})
    return done.stdout.strip()


def committed(folder: Path, script: str) -> str:
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "train.py").write_text(script)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a step")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clones" / "someone" / "made"
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    return folder


def checked(clone: Path, capsys: pytest.CaptureFixture[str], commit: str, page: str = PAGE) -> tuple[int, str]:
    pages = clone.parents[2] / "pages"
    pages.mkdir(exist_ok=True)
    (pages / "made.md").write_text(page.format(commit=commit))
    (pages / "rows.md").write_text("# Of no trainer\n")
    clones = next(one for one in clone.parents if one.name == "clones")
    return main(["--check", str(clones)], pages), capsys.readouterr().out


@pytest.mark.parametrize("bare", [False, True])
def test_hunks_that_have_moved_apply_and_those_that_are_gone_are_named(clone, capsys, bare):
    tried = committed(clone, SCRIPT)
    moved = committed(clone, "# a licence\n" * 30 + SCRIPT)
    status, said = checked(clone, capsys, tried[:7])
    assert status == 0
    assert said.splitlines()[1:] == [
        f"  someone/made at {tried[:7]} (tried): 2 of 2 hunks apply",
        f"  someone/made at {moved[:7]} (newest): 2 of 2 hunks apply, 2 at other lines",
    ]
    gone = committed(clone, SCRIPT.replace("rewards.mean()", "rewards.sum() / len(rewards)"))
    if bare:
        mirror = clone.parents[1] / "someone+made" / "repo"
        git(clone, "clone", "-q", "--bare", str(clone), str(mirror))
        shutil.rmtree(clone.parent)
    status, said = checked(clone, capsys, tried[:7])
    assert status == 1
    assert f"at {tried[:7]} (tried): 2 of 2 hunks apply\n" in said
    assert f"at {gone[:7]} (newest): 1 of 2 hunks apply\n    hunk 2, src/train.py: patch failed: " in said
    if not bare:
        assert git(clone, "status", "--porcelain") == ""


def test_what_cannot_be_seen_is_no_success(clone, capsys):
    assert checked(clone, capsys, "0" * 40)[0] == 1, "a folder without a commit is no clone"
    commit = committed(clone, SCRIPT)
    assert checked(clone, capsys, commit) == (0, f"made.md\n  someone/made at {commit} (tried): 2 of 2 hunks apply\n")
    assert checked(clone, capsys, "0" * 40)[0] == 1
    status, said = checked(clone, capsys, commit, PAGE.replace("someone/made@", "nobody/other@"))
    assert (status, said) == (1, "made.md\n  nobody/other: no clone\n")
    git(clone, "mv", "src/train.py", "src/run.py")
    git(clone, "commit", "-qm", "moved")
    status, said = checked(clone, capsys, commit)
    assert (status, said.count("src/train.py: there is no such file")) == (1, 2)


def trainers() -> list[tuple[str, str, str]]:
    text = (PAGES.parent / "trainers.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| [")]
    links = [re.fullmatch(r"\| \[(.+)\]\(trainers/(.+)\)", row[0]) for row in rows]
    return [(link[1], link[2], row[2]) for link, row in zip(links, rows, strict=True) if link]


@pytest.mark.parametrize(("title", "page"), [row[:2] for row in trainers()])
def test_every_page_says_near_its_top_what_it_was_tried_at(title, page):
    text = (PAGES / page).read_text(encoding="utf-8")
    heading, empty, line, *_ = text.splitlines()
    assert (heading, empty) == (f"# {title}", "")
    assert line.startswith("Tried at: ")
    assert tried_at(text)


@pytest.mark.parametrize("line", ["someone/made", "someone/made@main (2026-11-28)", "someone/made@1234567"])
def test_a_commit_in_another_form_is_an_error(line):
    with pytest.raises(ValueError, match="one line `Tried at: OWNER/NAME@COMMIT"):
        tried_at(f"# Made\n\nTried at: {line}\n")


def added(block: str) -> int:
    return sum(line.startswith("+") and not line.startswith("+++") for line in block.splitlines())


def settings(block: str, below: str = "") -> int:
    return len(block[block.index(below) + len(below) :].strip().splitlines())


def test_the_table_counts_the_lines_of_the_pages():
    counts = {
        "Flow-GRPO": sum(map(added, documented("Flow-GRPO", "diff")[:2])),
        "Edit-R1": sum(map(added, documented("Edit-R1", "diff")[:2])),
        "Flow-Factory": settings(documented("Flow-Factory", "yaml")[0], "rewards:"),
        "verl-omni": settings(documented("verl-omni", "text")[0]),
        "UniRL": settings(documented("UniRL", "yaml")[0], "backend:"),
        "OmniGen2-RL": settings(documented("OmniGen2-RL", "yaml")[0], "server:")
        + added(documented("OmniGen2-RL", "diff")[0]),
        "DanceGRPO": added(documented("DanceGRPO", "diff")[0]),
        "TRL": added(documented("TRL", "diff")[0]),
    }
    assert {title: int(re.findall(r"\d+", lines)[0]) for title, _, lines in trainers() if lines != "none"} == counts
