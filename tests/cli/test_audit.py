"""`editcritic audit`: functions, rewards, servers; files, suites, the demo; what is written, and what ends it."""

import contextlib
import json
import os
import re
import signal
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from editcritic.benchmarks.common.inputs import load_reward, spec_argument
from editcritic.benchmarks.run import run_budget
from editcritic.cli import audit
from editcritic.integrations.serving.server import ScoringService, serve_in_thread
from editcritic.reward.audit import all_families

from ..benchmarks.conftest import Command, Folder, patched
from ..benchmarks.suites.tiny_suite import Toy, outputs
from .test_interruption import check_interrupted, program, started

CONTRAST = ("--reward", "tests.cli.audited_functions:contrast")
FEW = tuple(word for name in ("blurred", "over-saturated", "reencoded", "sample-id") for word in ("--family", name))
KEYS = {
    *("schema", "reward", "identity", "range", "scale", "tolerance", "seed", "edits", "sources", "unscored_edits"),
    *("infrastructure_failures", "stopped", "overall", "best_hack", "sensitivity", "families", "expert_costs"),
    *("scored", "reward_seconds", "seconds", "trials", "unmade"),
}
"""Of the figures of an audit: programs read them."""


@pytest.fixture
def samples(folder: Folder) -> Path:
    """Four edits of one photograph."""
    for number in range(4):
        patched(0.2 + 0.1 * number).save(folder / f"{number}.png")
    return folder.samples(*(folder.row(id=f"edit {number}", edited=f"{number}.png") for number in range(4)))


def figures(editcritic, *arguments, code=0):
    return json.loads(editcritic("audit", *arguments, "--json", code=code).stdout)


def violations(document: dict[str, Any]) -> dict[str, int]:
    return {row["family"]: row["violations"] for row in document["families"]}


def test_a_function_on_the_photographs_of_the_demo(editcritic: Command, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    result = editcritic("audit", "demo", *CONTRAST, *FEW, "-o", page, code=0)
    rows = [line.split() for line in result.stdout.splitlines()]
    table = [row[0] for row in rows[rows.index(["Families", "with", "violations"]) :] if "of" in row]
    assert table[0] == "over-saturated"  # has more contrast, and so have most
    assert "No violations in 3 families: blurred, reencoded, sample-id" in result.stdout
    assert re.search(r"edits +8 of 5 sources", result.stdout)
    assert "Only 5 sources: give 16 or more, or the rates say little." in " ".join(result.stdout.split())
    assert "comparisons are violations" in " ".join(result.stdout.split())
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    written = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert written.keys() == KEYS | {"command"}
    assert written["command"].startswith("editcritic audit demo --reward tests.cli.audited_functions:contrast")
    assert violations(written)["blurred"] == 0
    assert violations(written)["over-saturated"] > 12
    assert written["edits"] == 8
    assert written["best_hack"]["mean"] > 0


def test_every_family_is_audited_by_default(editcritic: Command, samples: Path) -> None:
    document = figures(editcritic, "demo", *CONTRAST, "--limit", "2")
    assert [row["family"] for row in document["families"]] == [family.name for family in all_families()]
    assert len({trial["id"] for trial in document["trials"]}) == document["edits"] == document["sources"] == 2
    assert document["infrastructure_failures"] == 0
    options = ("--reward", "tests.cli.audited_functions:contrast_of_pictures", "--pictures")
    ours, theirs = figures(editcritic, samples, *CONTRAST, *FEW), figures(editcritic, samples, *options, *FEW)
    assert ours["trials"] == theirs["trials"]


def test_the_tolerance_is_of_harmless_variants_and_what_is_random_of_the_seed(editcritic, samples):
    harmless = (samples, *CONTRAST, "--family", "reencoded", "--family", "faint-brightness")
    strict, lenient = (figures(editcritic, *harmless, "--tolerance", share) for share in (0, 1))
    assert (strict["tolerance"], lenient["tolerance"]) == (0, 1)
    assert strict["overall"]["violations"] > lenient["overall"]["violations"]
    noisy = (samples, *CONTRAST, "--family", "noisy")
    first, again, other = (figures(editcritic, *noisy, "--seed", seed) for seed in (1, 1, 2))
    assert (first["seed"], other["seed"]) == (1, 2)
    assert first["trials"] == again["trials"] != other["trials"]


def test_a_reward_with_experts_says_what_they_take(editcritic: Command, samples: Path, tmp_path: Path) -> None:
    judge = ("--reward", "judge-yes-no", "--experts", "judge=tests.benchmarks.suites.tiny_suite:CoinJudge")
    arguments = (samples, *judge, "--family", "lower", "--cache", tmp_path / "answers.db")
    first, again = figures(editcritic, *arguments), figures(editcritic, *arguments)
    (cost,) = first["expert_costs"]
    assert (cost["expert"], cost["roles"]) == ("coin@1", ["judge"])
    assert cost["queries"] > 300
    assert (sum(later["calls"] for later in again["expert_costs"]), again["trials"]) == (0, first["trials"])
    # Whether an answer repeats is asked for again.
    assert figures(editcritic, *arguments, "--family", "repeated")["expert_costs"][0]["calls"] > 0
    text = " ".join(editcritic("audit", *arguments[:-2]).stdout.split())
    assert "What it took expert roles queries calls failed seconds ms per score coin@1 judge" in text
    editcritic("audit", *arguments[:-2], "-o", tmp_path / "audit.html")
    costs = (tmp_path / "audit.html").read_text(encoding="utf-8").partition('<section id="costs">')[2]
    words = " ".join(re.sub(r"<[^>]*>", " ", costs.partition("</section>")[0]).split())
    assert "expert roles queries calls failed seconds ms per score coin@1 judge" in words


def test_a_suite_with_the_outputs_of_an_editor(editcritic: Command, tmp_path: Path) -> None:
    suite = Toy(count=3)
    made = outputs(tmp_path / "outputs", suite, without=["2/2"])
    arguments = ("tests.benchmarks.suites.tiny_suite:Toy?count=3", "--outputs", made, *CONTRAST, *FEW)
    document = figures(editcritic, *arguments, code=2)
    assert (document["edits"], document["num_problems"]) == (5, 1)
    assert "2/2" in document["problems"][0]
    (made / "1_turn_2.png").rename(made / "1-2.png")
    document = figures(editcritic, *arguments, code=2)
    assert (document["edits"], document["num_problems"]) == (4, 3)
    assert document["problems"][-1].endswith("1 picture among the outputs is of no item that is looked for: 1-2.png")


def test_of_many_edits_those_of_as_many_sources_as_possible_are_audited(editcritic: Command, folder: Folder) -> None:
    for number in range(3):
        patched(0.1 * (number + 1)).save(folder / f"source{number}.png")
    rows = [
        folder.row(id=f"{source}-{number}", source=f"source{source}.png", edited="patched.png")
        for source in range(3)
        for number in range(6)
    ]
    path = folder.samples(*rows)
    document = figures(editcritic, path, *CONTRAST, *FEW, "--limit", "3")
    assert (document["edits"], document["sources"]) == (3, 3)
    assert "--limit" in editcritic("audit", path, *CONTRAST, *FEW, "--limit", "3").stderr


def test_a_judge_server_by_its_address(editcritic: Command, folder: Folder, samples: Path) -> None:
    here = figures(editcritic, samples, "--reward", folder.cheap, *FEW)
    service = ScoringService(load_reward(spec_argument(str(folder.cheap))))
    with contextlib.closing(service), serve_in_thread(service) as url:
        there = figures(editcritic, samples, "--reward", url, *FEW)
        editcritic("audit", samples, "--reward", url, "--experts", "cpu", code=2, says="leave --experts out")
    assert (there["trials"], there["identity"], there["expert_costs"]) == (here["trials"], here["identity"], [])
    away = ("--reward", f"{url}?outage_timeout_s=0.5", *FEW)
    editcritic("audit", samples, *away, code=2, says="no judge server can be used")


def test_without_a_terminal_a_line_says_how_far_it_is(editcritic, samples, monkeypatch):
    often = partial(run_budget.progress_reporter, every_s=0.0)
    monkeypatch.setattr(run_budget, "progress_reporter", often)
    result = editcritic("audit", samples, *CONTRAST, *FEW, "--json")
    json.loads(result.stdout)
    lines = [line for line in result.stderr.splitlines() if line.startswith("editcritic: auditing: ")]
    assert lines[0] == "editcritic: auditing: 0 of 4"
    assert lines[-1].startswith("editcritic: auditing: 4 of 4")


def test_the_exit_code_is_for_continuous_integration(editcritic: Command, samples: Path) -> None:
    rate = figures(editcritic, samples, *CONTRAST, *FEW)["overall"]["rate"]
    assert 0 < rate < 1
    for threshold, code in ((rate - 0.01, 1), (rate, 0), (1, 0), (0, 1)):
        figures(editcritic, samples, *CONTRAST, *FEW, "--fail-above", threshold, code=code)


@pytest.mark.parametrize(
    ("function", "words"),
    [("broken", "no edit has a score."), ("lowest", "each edit has no score or the lowest already")],
)
def test_a_reward_whose_edits_cannot_be_compared_has_failed(editcritic, samples, function, words):
    result = editcritic(
        "audit", samples, "--reward", f"tests.cli.audited_functions:{function}", "--family", "blurred", code=1
    )
    assert f"Nothing could be compared: {words}" in " ".join(result.stdout.split())
    assert result.stdout.count("no GPU is left") == (function == "broken")
    assert "\x1b" not in result.stdout


def test_an_outage_ends_the_audit_and_is_no_violation(editcritic: Command, samples: Path) -> None:
    document = figures(editcritic, samples, "--reward", "tests.cli.audited_functions:unplugged", code=1)
    assert re.fullmatch(r"the last \d+ scores failed: .*nobody is there", document["stopped"])
    assert document["infrastructure_failures"] > 10
    assert document["unscored_edits"] == 0
    wrong = [trial for trial in document["trials"] if trial["outcome"] == "violation"]
    assert [trial for trial in wrong if trial["variant"] is None] == []
    assert len(document["trials"]) < 4 * 3 * len(document["families"]) / 2


def test_what_cannot_be_read_is_no_outage(editcritic: Command) -> None:
    few = ("--family", "blurred", "--family", "broken-file", "--family", "missing-file")
    document = figures(editcritic, "demo", "--reward", "tests.cli.audited_functions:posted", *few, "--limit", "2")
    assert (document["stopped"], document["infrastructure_failures"]) == ("", 0)
    assert len(document["trials"]) == 2 * 3 * 3


def test_beyond_the_budget_nothing_is_compared(editcritic: Command, samples: Path) -> None:
    judge = ("--reward", "judge-yes-no", "--experts", "judge=tests.benchmarks.suites.tiny_suite:CoinJudge")
    document = figures(editcritic, samples, *judge, "--budget", "judge_calls=40", code=1)
    assert "the budget of 40 judge calls is spent" in document["stopped"]
    assert sum(cost["queries"] for cost in document["expert_costs"]) >= 40
    failed = [trial for trial in document["trials"] if "budget" in trial.get("reason", "")]
    assert failed
    assert {trial["outcome"] for trial in failed} == {"incomparable"}
    ended = figures(editcritic, samples, *CONTRAST, "--budget", "seconds=0.001", code=1)
    assert ended["stopped"] == "the budget of 0.001 seconds is spent"


def test_seconds_that_are_spent_in_between_are_an_exit_code(editcritic, samples, monkeypatch):
    clock = count()  # a second passes each time that somebody asks
    monkeypatch.setattr(audit, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    document = figures(editcritic, samples, *CONTRAST, "--family", "blurred", "--budget", "seconds=8", code=1)
    assert document["stopped"] == "the budget of 8 seconds is spent"
    assert (len({trial["id"] for trial in document["trials"]}), document["overall"]["rate"]) == (2, 0)
    assert document["infrastructure_failures"] == 0


@pytest.mark.parametrize("worst", [0, 1, 2])
def test_as_many_examples_are_on_the_page_as_were_asked_for(editcritic: Command, samples: Path, worst: int) -> None:
    page = samples.with_name("audit.html")
    editcritic("audit", samples, *CONTRAST, "--family", "over-saturated", "--worst", worst, "-o", page)
    text = page.read_text(encoding="utf-8")
    section = text.partition('<section id="worst">')[2].partition("</section>")[0]
    assert section.count("<article>") == worst
    assert ("No examples were asked for." in section) == (worst == 0)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux what the process catches")
def test_what_is_scored_is_reported_after_ctrl_c(tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    options = ("--reward", "tests.cli.audited_functions:slow_contrast", "--family", "lower", "-o", page)
    with started(program("audit", "demo", *options)) as process:
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    check_interrupted(process.returncode, stderr)
    assert list(tmp_path.iterdir()) == []  # nothing was scored yet
    with started(program("audit", "demo", *options)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "third call\n"
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    check_interrupted(process.returncode, stderr)
    document = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert (document["stopped"], document["edits"]) == ("interrupted", 8)
    assert 0 < len(document["trials"]) < 8 * 3 * sum(family.relation == "lower" for family in all_families())
    assert "incomplete" in stdout
    assert "</html>" in page.read_text(encoding="utf-8")


def test_what_a_function_prints_is_not_in_the_document(editcritic: Command, samples: Path) -> None:
    arguments = ("audit", samples, "--reward", "tests.cli.audited_functions:talkative", "--family", "blurred")
    result = editcritic(*arguments, "--json")
    assert json.loads(result.stdout)["edits"] == 4
    assert "scoring 4 samples" in result.stderr
    assert "scoring 4 samples" in editcritic(*arguments).stdout


def test_lines_that_are_no_samples_are_named_and_the_others_audited(editcritic, folder, samples):
    lacking = (f"{samples}:1: the reward needs metadata, which 'edit 0' lacks", "has no edit that can be audited")
    editcritic("audit", samples, "--reward", "truth-followed", code=2, says=lacking)
    hostile = "Remove [/helmet] \x1b[2J <script>alert(1)</script>"
    path = folder.samples(folder.row(id="good", instruction=hostile), "no json", folder.row(edited="missing.png"))
    page = folder / "audit.html"
    told = (f"{path}:2: ", f"{path}:3: ", "2 edits are left out")
    result = editcritic("audit", path, *CONTRAST, *FEW, "-o", page, code=2, says=told)
    assert "\x1b" not in result.stdout + result.stderr
    assert "<script" not in page.read_text(encoding="utf-8")
    assert figures(editcritic, path, *CONTRAST, *FEW, code=2)["edits"] == 1
    result = editcritic("audit", folder.samples(*["no json"] * 1_100), *CONTRAST, code=2)
    assert "1,100 edits are left out, the first 1,000 named above" in " ".join(result.stderr.split())
    assert len(result.stderr.splitlines()) < 3_000


MISTAKES = {
    "a family": (("--family", "blured"), "there is no family 'blured'"),
    "a suffix": (("-o", "audit.pdf"), "ending in .html or .json"),
    "a folder": (("-o", "missing/audit.html"), "No such file or directory"),
    "no edits": (("--reward", "nonsense"), "unknown reward 'nonsense'"),
    "a module": (("--reward", "nonsense:score"), "cannot find nonsense:score"),
    "no function": (("--reward", "tests.cli.audited_functions:NUMBER"), "not callable"),
    "its cache": ((*CONTRAST, "--cache", "answers.db"), "leave --cache out"),
    "its protocol": ((*CONTRAST, "--protocol", "paper"), "leave --protocol out"),
    "its calls": ((*CONTRAST, "--budget", "judge_calls=3"), "--budget takes seconds"),
    "pictures": (("--pictures",), "--pictures is for a function of yours"),
    "no pictures": ((*CONTRAST, "--pictures"), "takes a list of samples, and is called with lists of sources"),
    "samples": (("--reward", "tests.cli.audited_functions:contrast_of_pictures"), "list of samples: add --pictures"),
    "data": (("--data", "."), "--data is the data of a suite"),
    "a budget": (("--budget", "hours=3"), "--budget: a budget has judge_calls, seconds, cost"),
    "one file": (("-o", "a.json", "-o", "a.json"), "use different files"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake, editcritic, samples, monkeypatch, tmp_path):
    options, words = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    result = editcritic("audit", samples, *options, code=2)
    assert words in " ".join(result.stderr.split())
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".html", ".json")]


def test_figures_alone_and_figures_of_another_name(editcritic: Command, samples: Path, folder: Folder) -> None:
    editcritic("audit", samples, *CONTRAST, *FEW, "-o", folder / "page.html", "-o", folder / "figures.json")
    assert (folder / "page.html").is_file()
    assert not (folder / "page.json").exists()
    editcritic("audit", samples, *CONTRAST, *FEW, "-o", folder / "alone.json")
    assert not (folder / "alone.html").exists()
    first, alone = (json.loads((folder / name).read_text()) for name in ("figures.json", "alone.json"))
    assert first["trials"] == alone["trials"]


def test_reports_take_no_other_place(editcritic: Command, samples: Path, folder: Folder) -> None:
    (folder / "folder.html").mkdir()
    os.mkfifo(folder / "pipe.html")
    for name in ("folder.html", "pipe.html"):
        result = editcritic("audit", samples, *CONTRAST, "-o", folder / name, code=2)
        assert f"{name} is no file: give another name" in " ".join(result.stderr.split())
    path, row = folder / "samples.json", json.dumps(folder.row(id="a")) + "\n"
    path.write_text(row, encoding="utf-8")
    for out in (path, folder / "samples.html"):  # whose figures would be samples.json
        editcritic("audit", path, *CONTRAST, *FEW, "-o", out, code=2)
        assert path.read_text(encoding="utf-8") == row
    for name in ("page.html", "page.json"):
        (folder / name).symlink_to(folder / f"of-{name}")
    editcritic("audit", samples, *CONTRAST, "--family", "nonsense", "-o", folder / "page.html", code=2)
    assert not list(folder.path.glob("of-*"))
    editcritic("audit", samples, *CONTRAST, "--family", "blurred", "-o", folder / "page.html", code=0)
    assert all((folder / name).is_symlink() for name in ("page.html", "page.json"))
    assert json.loads((folder / "of-page.json").read_text())["edits"] == 4
