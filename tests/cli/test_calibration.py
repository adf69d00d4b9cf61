"""`editcritic maps`: from scores and labels to a map that is found by name, shown, applied, and used by a reward."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from editcritic.benchmarks.maps import app
from editcritic.benchmarks.score_run import row_of
from editcritic.reward import Score
from editcritic.reward.score_maps import ScoreMap

from .people import made

COUNT = 60


def maps(*arguments: object) -> Result:
    """Runs a command. Whatever it is given, it ends by exiting, never with a traceback."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.stdout + result.stderr
    return result


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Given:
    """Files of two judges' scores of the same edits, and of labels: pairs, and yes or no."""

    def __init__(self, folder: Path) -> None:
        chance = np.random.default_rng(0)
        worth = chance.normal(0, 1.5, COUNT)
        self.folder = folder
        self.levels = self.scores("levels.jsonl", "judge-levels@1", 1 / (1 + np.exp(-worth)))
        self.grades = self.scores("grades.jsonl", "judge-quality@1", np.round(50 + 10 * worth))
        pairs = [chance.choice(COUNT, 2, replace=False) for _ in range(200)]
        wins = [chance.random() < 1 / (1 + np.exp(worth[j] - worth[i])) for i, j in pairs]
        self.pairs = made.labels_file(
            folder / "pairs.jsonl",
            [
                made.said("A" if won else "B", (("", f"{i}"), ("", f"{j}")), "pair", by=f"person {number}")
                for number, ((i, j), won) in enumerate(zip(pairs, wins, strict=True))
            ],
        )
        answers = [made.said("yes" if w > 0 else "no", f"{number}") for number, w in enumerate(worth)]
        self.answers = made.labels_file(folder / "answers.jsonl", answers)

    def scores(self, name: str, metric: str, values: "np.ndarray") -> Path:
        rows = [row_of(f"{number}", Score.of(value).by(metric)) for number, value in enumerate(values)]
        rows.append(row_of("dark", Score.abstained("dark").by(metric)))
        path = self.folder / name
        path.write_text("".join(rows), encoding="utf-8")
        return path


@pytest.fixture
def given(tmp_path: Path) -> Given:
    return Given(tmp_path)


def test_two_judges_are_fitted_at_once_and_found_by_name(given, tmp_path, monkeypatch):
    ran = maps("fit", given.levels, given.grades, "--labels", given.pairs, "-o", tmp_path / "maps", "--json")
    assert ran.exit_code == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert [Path(one["map"]).name for one in told["maps"]] == ["judge-levels.json", "judge-quality.json"]
    assert len({one["comes_out"]["unit"] for one in told["maps"]}) == 1
    assert told["maps"][0]["provenance"]["score_files"][1]["file"] == "grades.jsonl"

    monkeypatch.setenv("EDITCRITIC_MAPS", str(tmp_path / "maps"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    ran = maps("list")
    assert (ran.exit_code, "judge-levels" in ran.stdout, "2 maps in" in ran.stdout) == (0, True, True)
    ran = maps("show", "judge-quality")
    assert ran.exit_code == 0
    for text in ("judge-quality@1 (0 to 100 grade 0-100)", "200 count", "held out", "pair:following", "pairs.jsonl"):
        assert text in ran.stdout
    assert json.loads(maps("show", "judge-quality", "--json").stdout)["digest"] in ran.stdout.replace("\n", "")

    (tmp_path / "maps" / "broken.json").write_text("{}")
    ran = maps("list", "--json")
    told = json.loads(ran.stdout)
    assert (ran.exit_code, len(told["maps"]), len(told["problems"])) == (1, 2, 1)


def test_scores_that_are_there_are_mapped(given, tmp_path):
    out = tmp_path / "levels-map.json"
    ran = maps("fit", given.levels, "--labels", given.answers, "-o", out)
    assert ran.exit_code == 0, ran.stderr
    by = ScoreMap.load(out)
    ran = maps("apply", out, given.levels, "-o", tmp_path / "mapped.jsonl")
    assert ran.exit_code == 0, ran.stderr
    assert f"{COUNT} of {COUNT + 1} scores mapped, 0 of them clamped" in ran.stdout
    rows = rows_of(tmp_path / "mapped.jsonl")
    before = rows_of(given.levels)
    assert [row["value"] for row in rows[:-1]] == [by(row["value"]) for row in before[:-1]]
    assert (rows[-1]["status"], rows[-1]["reason"]) == ("abstained", "dark")
    assert rows[0]["metric"] == f"mapped@1[judge-levels@1, {by.digest[:12]}]"
    ran = maps("apply", out, given.grades, "-o", tmp_path / "other.jsonl")
    assert (ran.exit_code, "some of judge-quality@1; --anyway" in ran.stderr) == (2, True)
    assert not (tmp_path / "other.jsonl").exists()
    ran = maps("apply", out, given.grades, "-o", tmp_path / "other.jsonl", "--anyway", "--json")
    assert json.loads(ran.stdout)["clamped"] == COUNT


def test_labels_that_name_editors_meet_scores_that_are_given_under_their_name(given, tmp_path):
    lines = [json.loads(line) for line in given.pairs.read_text().splitlines()]
    named = made.labels_file(tmp_path / "named.jsonl", [])
    named.write_text("".join(json.dumps({**line, "editor": ["omni", "seed"]}) + "\n" for line in lines))
    out = tmp_path / "levels.json"
    both = (f"omni={given.levels}", f"seed={given.levels}")
    assert maps("fit", *both, "--labels", named, "-o", out).exit_code == 0
    ran = maps("fit", both[0], "--labels", named, "-o", out)
    assert (ran.exit_code, "200 are about others" in ran.stderr) == (2, True)


def test_folders_of_results_say_who_was_asked(given, tmp_path):
    rows = [made.row(name, o=0.0) for name in map(str, range(COUNT))]
    values = [json.loads(line)["value"] for line in given.levels.read_text().splitlines()][:COUNT]
    signed = [
        type(row)(row.id, row.case, {}, {"o": Score.of(value).by("judge-levels@1")})
        for row, value in zip(rows, values, strict=True)
    ]
    folder = made.write(tmp_path / "results", made.results("omni", signed))
    head = {"editor": "omni", "provenance": {"experts": {"judge": {"id": "judge-7b", "spec": None}}}}
    (folder / "result.json").write_text(json.dumps(head))
    ran = maps("fit", folder, "--labels", given.pairs, "-o", tmp_path / "o.json", "--json")
    assert ran.exit_code == 0, ran.stderr
    told = json.loads(ran.stdout)["maps"][0]["provenance"]
    assert told["experts"] == {"omni: judge": "judge-7b"}


def test_a_map_that_tells_nothing_ends_with_1_and_says_why(given, tmp_path):
    upside = given.scores("upside.jsonl", "judge-quality@1", -np.arange(COUNT, dtype=float))
    worth = [made.said("yes" if number > 30 else "no", f"{number}") for number in range(COUNT)]
    labels = made.labels_file(tmp_path / "labels.jsonl", worth)
    ran = maps("fit", upside, "--labels", labels, "-o", tmp_path / "flat.json")
    assert ran.exit_code == 1
    assert "flat.json: the map is flat" in ran.stderr
    assert "is it a cost?" in ran.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--metric", "light"], "no row has a score 'light'"),
        (["--kind", "four-level"], "none of them four-level:any dimension"),
        (["--scale", "percent"], "--scale is log-odds or share"),
        (["--ridge", "0"], "ridge is above 0"),
        (["--reward", "judge-levels"], "give the reward that made them"),
        (["--reward", "no-such"], "unknown reward"),
    ],
)
def test_what_cannot_be_fitted_is_said_plainly(given, tmp_path, options, says):
    ran = maps("fit", given.grades, "--labels", given.pairs, "-o", tmp_path / "maps", *options)
    assert (ran.exit_code, says in ran.stderr) == (2, True), ran.stderr
    assert not (tmp_path / "maps").exists()


def test_files_that_are_none_are_said_plainly(given, tmp_path):
    for arguments, says in [
        (
            ("fit", given.grades, given.grades, "--labels", given.pairs, "-o", "m"),
            "has a second score of judge-quality",
        ),
        (("fit", given.pairs, "--labels", given.pairs, "-o", "m"), "pairs.jsonl:1 is no line of a scores file"),
        (("fit", tmp_path / "none.jsonl", "--labels", given.pairs, "-o", "m"), "none.jsonl: No such file"),
        (("fit", given.levels, given.grades, "--labels", given.pairs, "-o", "m.json"), "is one file"),
        (("show", "nowhere"), "no score map 'nowhere': looked for nowhere.json in"),
        (("apply", "nowhere", given.grades, "-o", "-"), "no score map 'nowhere'"),
    ]:
        ran = maps(*arguments)
        assert (ran.exit_code, says in ran.stderr) == (2, True), ran.stderr


def test_a_reward_that_is_mapped_scores_on_the_command_line(editcritic, folder, three, monkeypatch, tmp_path):
    out = folder / "raw.jsonl"
    assert editcritic("score", three, "--reward", folder.cheap, "-o", out).exit_code == 0
    rows = [row for row in rows_of(out) for _ in range(20)]
    scores = folder / "many.jsonl"
    scores.write_text("".join(json.dumps({**row, "id": f"{number}"}) + "\n" for number, row in enumerate(rows)))
    labels = [made.said("yes" if row["value"] == 1.0 else "no", f"{number}") for number, row in enumerate(rows)]
    named = made.labels_file(folder / "labels.jsonl", labels)
    mine = tmp_path / "maps" / "mine.json"
    ran = maps("fit", scores, "--labels", named, "--reward", folder.cheap, "-o", mine)
    assert (ran.exit_code, ran.stderr) == (0, "")
    monkeypatch.setenv("EDITCRITIC_MAPS", str(mine.parent) + os.pathsep)
    spec = folder / "mapped.toml"
    parts = "metric.parts.changed.use = 'guard-changed'\nmetric.parts.not_blank.use = 'guard-not-blank'\n"
    head = "use = 'editcritic.reward.mapped:Mapped'\nmap = 'mine'\nmetric.use = 'weighted-mean'\n"
    spec.write_text(head + parts)
    ran = editcritic("score", three, "--reward", spec, "--json")
    assert ran.exit_code == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert {row["value"] for row in told["scores"]} == {0.0, 1.0}
    assert told["reward"]["reward"]["digest"] == ScoreMap.load(mine).digest
    spec.write_text(head + parts.splitlines()[0])
    ran = editcritic("score", three, "--reward", spec)
    assert (ran.exit_code, "is not for this metric" in ran.stderr) == (2, True)
