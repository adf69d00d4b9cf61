"""Every suite from its published layout to its tables, with equal files for any number of processes."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.protocol_lock import read_protocol, write_protocol
from editcritic.benchmarks.run.run_config import RunConfig
from editcritic.benchmarks.run.run_settings import RunSettings, read_run_settings
from editcritic.benchmarks.run.runner import execute, run_suite
from editcritic.benchmarks.run.suite_loading import load_suite, metric_spec
from editcritic.benchmarks.suites.results import load_results
from editcritic.reward import SpecError, build
from editcritic.reward.config import options_of, spec_table
from editcritic.reward.queries.specs import Spec
from editcritic.reward.trust import trusting

from ..suites.tiny_suite import CoinJudge, Toy, outputs
from .all_suites import SUITES, recipe, write
from .conftest import SCORED, TOY, python
from .counting_experts import experts, files

TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With data, outputs, and in `one` what one process makes of them."""
    path = tmp_path_factory.mktemp("suites")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(path / "cache"))
        write(path)
        for name in SUITES:
            execute(RunConfig.build(recipe(path, name)))
        yield path


def started(folder: Path, way: str, *launcher: str) -> None:
    python(*launcher, "-m", "tests.benchmarks.run.all_suites", folder, way)


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_is_judged_whole(folder, name):
    results = load_results(folder / "one" / name)
    assert not [row.id for row in results.rows if row.missing_reason]
    scored = [score for row in results.rows for score in row.scores.values() if score.status == "scored"]
    assert len(scored) >= len(results.rows) / 2
    assert results.provenance["suite"] == name
    tables = json.loads((folder / "one" / name / "result.json").read_text())["tables"]
    assert any(cell["value"] is not None for row in tables[0]["rows"].values() for cell in row.values())


@pytest.mark.parametrize("name", SUITES)
def test_the_list_says_what_each_suite_needs(folder, name, editcritic):
    entry = next(one for one in json.loads(editcritic("bench", "list", "--json").stdout) if one["name"] == name)
    made = recipe(folder, name)
    assert made.suite is not None
    suite = load_suite(made.suite, made.data)
    used = {spec_table(spec)["use"] for spec in suite.metrics().values()}
    roles = {role for metric in suite.metrics().values() for role in build(metric).card.roles}
    if entry["metrics"] == ["i2i-overall"]:
        used = {"i2i-overall"}
    assert used <= {metric.partition("?")[0] for metric in entry["metrics"]}
    assert roles <= {*entry["roles"]}
    written = b"".join(path.read_bytes() for path in (folder / name).rglob("*") if path.is_file())
    read = [part.split("`") for part in re.split("[;,] ", entry["fields"])]
    missing = [names for names in read if names[1:] and not any(one.encode() in written for one in names[1::2])]
    assert [names[1] for names in missing] == ABSENT.get(name, [])
    row = next(line for line in editcritic("bench", "list", code=0).stdout.splitlines() if line.startswith(name))
    assert entry["outputs"] in row
    assert (entry["data"] or "none") in row


ABSENT = {"dlebench": ["id"], "imgedit": ["turn1", "turn2"]}
"""Optional fields, and those of parts of a suite that are not written here."""

PRINTED = {
    "complex-edit": {"leaderboard", "levels", "measurements"},
    "dlebench": {"leaderboard", "criteria", "labels-if", "labels-vc"},
    "edival": {"leaderboard", "rates", "types", "consistency", "quality", "luminance", "pass-rates"},
    "i2ibench": {"leaderboard", "single", "multi", "success", "categories-single", "categories-multi", "single-multi"},
}
"""The tables of papers that one editor's run gives. The pages of `docs/protocols` have the command of every other table
and figure (a report, people's answers, several runs), or say that it cannot be."""


@pytest.mark.parametrize("name", PRINTED)
def test_in_the_papers_protocol_every_table_of_a_run_has_numbers(folder, name, tmp_path):
    execute(
        RunConfig.build(recipe(folder, name).overridden({"suite": name, "protocol": "paper", "out": tmp_path / name}))
    )
    rows = load_results(tmp_path / name).rows
    assert {score.status for row in rows for score in row.scores.values()} == {"scored"}
    tables = {table["name"]: table for table in json.loads((tmp_path / name / "result.json").read_text())["tables"]}
    assert tables.keys() == PRINTED[name]
    for table in tables.values():
        assert any(cell["value"] is not None for row in table["rows"].values() for cell in row.values()), table["name"]


@pytest.mark.parametrize("name", [*SUITES, "edival?vq=false&mode=singlepass"])
def test_every_option_of_a_metric_reaches_it_or_the_refusal_says_whose_it_is(folder, name):
    suite = load_suite(SUITES.get(name, name), None if name == "sceneedit" else folder / name.partition("?")[0])
    refused = []
    for metric, spec in suite.metrics().items():
        for part in parts_of(spec):
            for option, parameter in options_of(part["use"]).items():
                if isinstance(part.get(option), dict):  # the metric inside
                    continue
                text = f"{metric}?{urlencode({option: json.dumps(parameter.default, default=list)})}"
                try:
                    _, given = metric_spec(suite, None, text)
                except InputError as error:
                    refused.append(str(error))
                else:
                    assert any(option in one for one in parts_of(given) if one["use"] == part["use"])
                    build(given)
        with pytest.raises(InputError, match=f"{metric} has no option 'treshold': it has "):
            metric_spec(suite, None, f"{metric}?treshold=1")
    assert not [text for text in refused if not re.search("is an option of the suite|give --protocol|decides", text)]


def parts_of(spec: Spec) -> list[dict[str, Any]]:
    """A spec and those in it, as tables."""
    table = spec_table(spec)
    return [table, *(part for value in table.values() if isinstance(value, dict) for part in parts_of(value))]


def test_options_of_metrics_are_part_of_results_and_locks(folder: Path, tmp_path: Path) -> None:
    asked = recipe(folder, "edival").overridden({"metrics": ("if?threshold=0.3&max_box_size=null", "cc")})
    built = RunConfig.build(asked)
    signature = built.metric_set.metrics["if"].signature  # type: ignore[attr-defined]
    assert signature == "edival-if@3/paper[threshold=0.3, max_box_size=None]"
    assert list(built.metric_set.metrics) == ["if", "cc"]
    write_protocol(tmp_path / "lock.toml", built)
    own = RunSettings(data=asked.data, outputs=asked.outputs, editor_name="mine")
    with trusting("tests"):
        _, locked = read_protocol(tmp_path / "lock.toml", own)
    assert locked.metrics == asked.metrics
    assert RunConfig.build(asked.overridden({"metrics": locked.metrics})).identity == built.identity
    with pytest.raises(InputError, match="shown_images is an option of the suite: give 'i2ibench"):
        metric_spec(load_suite("i2ibench", folder / "i2ibench"), None, "local-attribute?shown_images=edited")
    with pytest.raises(InputError, match="--metric if is there twice"):
        RunConfig.build(asked.overridden({"metrics": ("if?threshold=0.3", "if")})).metric_set  # noqa: B018
    (tmp_path / "run.toml").write_text("suite = 'edival'\nmetrics = ['if?reader=x.y:f']\n", encoding="utf-8")
    with pytest.raises(SpecError, match="names the module"):
        read_run_settings(tmp_path / "run.toml")


def test_two_processes_write_what_one_writes(folder):
    started(folder, "share", *TORCHRUN)
    for name in SUITES:
        assert files(folder / "two" / name) == files(folder / "one" / name)
        facts = json.loads((folder / "two" / name / "run.json").read_text())
        assert len(facts["processes"]) == 2


def test_two_processes_of_the_command_write_what_one_writes(tmp_path):
    made = outputs(tmp_path / "outputs", Toy(count=5), without=["2/1"])
    words = ("bench", "run", TOY.replace("3", "5"), "--outputs", made, "-o", tmp_path / "two", "--editor-name", "mine")
    printed = python(*TORCHRUN, "-m", "editcritic.cli.main", *words, *SCORED, "--json", code=1)
    assert json.loads(printed)["counts"]["num_missing"] == 2
    judge = experts(CoinJudge())
    run_suite(Toy(count=5), made, editor="mine", experts=judge, metrics=["following"], out=tmp_path / "one")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    facts = json.loads((tmp_path / "two" / "run.json").read_text())
    assert [process["items"] for process in facts["processes"]] == [6, 4]
    assert sum(process["usage"]["judge_calls"] for process in facts["processes"]) == 8
