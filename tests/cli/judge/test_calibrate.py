"""`editcritic judge calibrate`: fit, list, show and apply calibrations, and use one in a reward."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.reward import Score
from editcritic.reward.metrics.calibration import CalibrationInput, CalibrationMap, CalibrationOutput
from editcritic.reward.score import score_line

from ...benchmarks.conftest import Command
from ...benchmarks.human_eval import label_files

COUNT = 60


@pytest.fixture
def calibration(editcritic: Command) -> Command:
    return partial(editcritic, "judge", "calibrate")


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class JudgeFiles:
    """Files of two judges' scores of the same edits, and of labels: pairs, and yes or no."""

    def __init__(self, folder: Path) -> None:
        chance = np.random.default_rng(0)
        worth = chance.normal(0, 1.5, COUNT)
        self.folder = folder
        self.levels = self.scores("levels.jsonl", "judge-levels@2", 1 / (1 + np.exp(-worth)))
        self.grades = self.scores("grades.jsonl", "judge-quality@2", np.round(50 + 10 * worth))
        pairs = [chance.choice(COUNT, 2, replace=False) for _ in range(200)]
        wins = [chance.random() < 1 / (1 + np.exp(worth[j] - worth[i])) for i, j in pairs]
        self.pairs = label_files.labels_file(
            folder / "pairs.jsonl",
            [
                label_files.make_label("A" if won else "B", (("", f"{i}"), ("", f"{j}")), "pair", by=f"person {number}")
                for number, ((i, j), won) in enumerate(zip(pairs, wins, strict=True))
            ],
        )
        answers = [label_files.make_label("yes" if w > 0 else "no", f"{number}") for number, w in enumerate(worth)]
        self.answers = label_files.labels_file(folder / "answers.jsonl", answers)

    def scores(self, name: str, metric: str, values: "np.ndarray") -> Path:
        rows = [score_line(f"{number}", Score.of(value).with_signature(metric)) for number, value in enumerate(values)]
        rows.append(score_line("dark", Score.abstained("dark").with_signature(metric)))
        path = self.folder / name
        path.write_text("".join(rows), encoding="utf-8")
        return path


@pytest.fixture
def files(tmp_path: Path) -> JudgeFiles:
    return JudgeFiles(tmp_path)


def test_two_judges_are_fitted_at_once_and_found_by_name(calibration, files, tmp_path, monkeypatch):
    two = ("fit", files.levels, files.grades, "--labels", files.pairs, "-o", tmp_path / "maps", "--json")
    document = json.loads(calibration(*two, code=0).stdout)
    assert [Path(one["file"]).name for one in document["calibrations"]] == ["judge-levels.json", "judge-quality.json"]
    assert len({one["comes_out"]["unit"] for one in document["calibrations"]}) == 1
    assert document["calibrations"][0]["provenance"]["score_files"][1]["file"] == "grades.jsonl"

    monkeypatch.setenv("EDITCRITIC_MAPS", str(tmp_path / "maps"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    calibration("list", code=0, shows=("judge-levels", "2 calibrations in"))
    texts = ("judge-quality@2 (0 to 100 grade 0-100)", "200 count", "held out", "pair:following", "pairs.jsonl")
    ran = calibration("show", "judge-quality", code=0, shows=texts)
    assert json.loads(calibration("show", "judge-quality", "--json").stdout)["digest"] in ran.stdout.replace("\n", "")

    (tmp_path / "maps" / "broken.json").write_text("{}")
    document = json.loads(calibration("list", "--json", code=1).stdout)
    assert (len(document["calibrations"]), len(document["problems"])) == (2, 1)


def test_scores_that_are_there_are_mapped(calibration, files, tmp_path):
    out = tmp_path / "levels-map.json"
    calibration("fit", files.levels, "--labels", files.answers, "-o", out, code=0)
    by = CalibrationMap.load(out)
    shows = f"{COUNT} of {COUNT + 1} scores calibrated, 0 of them clamped"
    calibration("apply", out, files.levels, "-o", tmp_path / "mapped.jsonl", code=0, shows=shows)
    rows = rows_of(tmp_path / "mapped.jsonl")
    before = rows_of(files.levels)
    assert [row["value"] for row in rows[:-1]] == [by(row["value"]) for row in before[:-1]]
    assert (rows[-1]["status"], rows[-1]["reason"]) == ("abstained", "dark")
    assert rows[0]["metric"] == f"calibrated@1[judge-levels@2, {by.digest[:12]}]"
    others = ("apply", out, files.grades, "-o", tmp_path / "other.jsonl")
    calibration(*others, code=2, says="has scores of judge-quality@2; --force")
    assert not (tmp_path / "other.jsonl").exists()
    assert json.loads(calibration(*others, "--force", "--json").stdout)["clamped"] == COUNT


def test_labels_that_name_editors_meet_scores_that_are_given_under_their_name(calibration, files, tmp_path):
    lines = [json.loads(line) for line in files.pairs.read_text().splitlines()]
    named = label_files.labels_file(tmp_path / "named.jsonl", [])
    named.write_text("".join(json.dumps({**line, "editor": ["omni", "seed"]}) + "\n" for line in lines))
    out = tmp_path / "levels.json"
    both = (f"omni={files.levels}", f"seed={files.levels}")
    calibration("fit", *both, "--labels", named, "-o", out, code=0)
    calibration("fit", both[0], "--labels", named, "-o", out, code=2, says="200 match other edits")


def test_folders_of_results_say_who_was_asked(calibration, files, tmp_path):
    rows = [label_files.row(name, o=0.0) for name in map(str, range(COUNT))]
    values = [json.loads(line)["value"] for line in files.levels.read_text().splitlines()][:COUNT]
    signed = [
        type(row)(row.id, row.case, {}, {"o": Score.of(value).with_signature("judge-levels@2")})
        for row, value in zip(rows, values, strict=True)
    ]
    folder = label_files.write(tmp_path / "results", label_files.results("omni", signed))
    head = {"schema": 2, "editor": "omni", "provenance": {"experts": {"judge": {"id": "judge-7b", "spec": None}}}}
    (folder / "result.json").write_text(json.dumps(head))
    ran = calibration("fit", folder, "--labels", files.pairs, "-o", tmp_path / "o.json", "--json", code=0)
    provenance = json.loads(ran.stdout)["calibrations"][0]["provenance"]
    assert provenance["experts"] == {"omni: judge": "judge-7b"}


def test_a_map_that_tells_nothing_ends_with_1_and_says_why(calibration, files, tmp_path):
    upside = files.scores("upside.jsonl", "judge-quality@2", -np.arange(COUNT, dtype=float))
    worth = [label_files.make_label("yes" if number > 30 else "no", f"{number}") for number in range(COUNT)]
    labels = label_files.labels_file(tmp_path / "labels.jsonl", worth)
    says = ("flat.json: the map is flat", "is it a cost?")
    calibration("fit", upside, "--labels", labels, "-o", tmp_path / "flat.json", code=1, says=says)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--metric", "light"], "no row has a score 'light'"),
        (["--label-kind", "four-level"], "none of them four-level:any dimension"),
        (["--scale", "percent"], "--scale is log-odds or share"),
        (["--smoothing", "-1"], "smoothing at least 0"),
        (["--reward", "judge-levels"], "give the reward that produced them"),
        (["--reward", "no-such"], "unknown reward"),
    ],
)
def test_what_cannot_be_fitted_is_said_plainly(calibration, files, tmp_path, options, says):
    calibration("fit", files.grades, "--labels", files.pairs, "-o", tmp_path / "maps", *options, code=2, says=says)
    assert not (tmp_path / "maps").exists()


def test_files_that_are_none_are_said_plainly(calibration, files, tmp_path):
    for arguments, says in [
        (("fit", files.grades, files.grades, "--labels", files.pairs, "-o", "m"), "has two scores of judge-quality"),
        (("fit", files.pairs, "--labels", files.pairs, "-o", "m"), "pairs.jsonl:1 is not a line of a scores file"),
        (("fit", tmp_path / "none.jsonl", "--labels", files.pairs, "-o", "m"), "none.jsonl: No such file"),
        (("fit", files.levels, files.grades, "--labels", files.pairs, "-o", "m.json"), "is one file"),
        (("show", "nowhere"), "no score map 'nowhere': looked for nowhere.json in"),
        (("apply", "nowhere", files.grades, "-o", "-"), "no score map 'nowhere'"),
    ]:
        calibration(*arguments, code=2, says=says)


@pytest.mark.parametrize(
    "provenance",
    [{"problems": 5}, {"fit": [1]}, {"held_out": {"map": 1}}, {"label_files": [{"file": 1}]}, {"experts": "x"}],
)
def test_a_provenance_that_nobody_wrote_is_one_line(calibration, provenance, tmp_path):
    ends, to = (0.0, 1.0), CalibrationOutput("u", (0.0, 1.0))
    CalibrationMap(ends, ends, CalibrationInput("a@1"), to, provenance).save(tmp_path / "odd.json")
    ran = calibration("show", tmp_path / "odd.json", code=2, says="is not what `judge calibrate fit` writes")
    assert ran.stderr.count("\n") == 1


def test_a_reward_that_is_mapped_scores_on_the_command_line(
    calibration, editcritic, folder, three, monkeypatch, tmp_path
):
    out = folder / "raw.jsonl"
    assert editcritic("score", three, "--reward", folder.cheap, "-o", out).exit_code == 0
    rows = [row for row in rows_of(out) for _ in range(20)]
    scores = folder / "many.jsonl"
    scores.write_text("".join(json.dumps({**row, "id": f"{number}"}) + "\n" for number, row in enumerate(rows)))
    labels = [
        label_files.make_label("yes" if row["value"] == 1.0 else "no", f"{number}") for number, row in enumerate(rows)
    ]
    named = label_files.labels_file(folder / "labels.jsonl", labels)
    mine = tmp_path / "maps" / "mine.json"
    ran = calibration("fit", scores, "--labels", named, "--reward", folder.cheap, "-o", mine)
    assert (ran.exit_code, ran.stderr) == (0, "")
    monkeypatch.setenv("EDITCRITIC_MAPS", str(mine.parent) + os.pathsep)
    spec = folder / "mapped.toml"
    parts = "metric.parts.changed.use = 'guard-not-a-copy'\nmetric.parts.not_blank.use = 'guard-not-blank'\n"
    head = (
        "use = 'editcritic.reward.metrics.calibration:Calibrated'\ncalibration = 'mine'\nmetric.use = 'weighted-mean'\n"
    )
    spec.write_text(head + parts)
    ran = editcritic("score", three, "--reward", spec, "--json", code=0)
    document = json.loads(ran.stdout)
    assert {row["value"] for row in document["scores"]} == {0.0, 1.0}
    assert document["reward"]["reward"]["digest"] == CalibrationMap.load(mine).digest
    spec.write_text(head + parts.splitlines()[0])
    editcritic("score", three, "--reward", spec, code=2, says="is not for this metric")
