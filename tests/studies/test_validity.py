"""The validity study: what is compared, agreement, the oracle, checks, noise, and the command."""

from functools import cache
from typing import Any

import pytest

from editcritic.benchmarks.sceneedit.cases import Case, cases, drift_series
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject
from editcritic.reward import Card, EditSample, Reward, Score, SpecError
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.metrics.edival.task_parser import parse_task
from editcritic.reward.queries import Abstention, Detect, Judge, Message, ReadText, YesNo
from studies.validity import validity_run
from studies.validity.__main__ import main
from studies.validity.metric_selection import (
    VARIANTS,
    EvaluatedMetric,
    ExpertNoise,
    MetricRunner,
    MetricValue,
    ValidityStudy,
    accuracy,
    auc,
    complete_pairs,
    installed_metrics,
    kappa,
    metrics_by_system,
    modes,
    of_kind,
    of_mode,
    score_all,
    select_metrics,
    spearman,
    truth_agreement,
)
from studies.validity.oracle import Oracle

CIRCLE = SceneObject(1, "circle", "red", 0.25, 0.3, 0.25, 0.25)
SQUARE = SceneObject(2, "square", "blue", 0.7, 0.6, 0.25, 0.25, material="wood")
SIGN = SceneObject(3, "sign", "yellow", 0.4, 0.85, 0.3, 0.14, text="EXIT")
SCENE = Scene((CIRCLE, SQUARE, SIGN), Backdrop("sky"), noise_seed=1)
NOISIER = Scene((CIRCLE, SQUARE, SIGN), Backdrop("sky"), noise_seed=2)


def case(name="c", instruction="Remove red circle", after=None, *, before=SCENE, followed=True, kept=1.0, **fields):
    """An edit of the scene; by default its red circle is removed."""
    edited = SCENE.without([1]) if after is None else after
    task: Any = parse_task(instruction)
    sample = EditSample(name, instruction, (render(SCENE),), render(edited), task=task)
    return Case(sample, GroundTruth(followed, kept, kept), task.type, before=before, after=edited, **fields)


class Fixed:
    """A metric with these values by sample id; it abstains where they are None."""

    def __init__(self, values, **card):
        self.values = values
        self.card = Card(**{"name": "fixed", "version": 1, "summary": "fixed scores", **card})

    def __call__(self, sample):
        value = self.values[sample.id]
        return Score.abstained("no fixed score") if value is None else Score.of(value)
        yield


def fixed(values, truth="overall", spec="fixed", **card):
    return EvaluatedMetric(spec, Fixed(values, **card), truth)


def study_of(these, *metrics):
    return ValidityStudy.of(these, metrics, score_all(metrics, (one.sample for one in these), {}))


# -- agreement with a truth -------------------------------------------------------------------------------------------


def test_numbers_worked_out_by_hand():
    pairs = [(0.9, 1.0), (0.6, 1.0), (0.5, 0.0), (0.1, 0.0), (0.2, 1.0)]
    assert accuracy(pairs) == pytest.approx(3 / 5)
    # Three of five values and of truths are a yes: chance agrees in 13 of 25.
    assert kappa(pairs) == pytest.approx((3 / 5 - 13 / 25) / (1 - 13 / 25))
    # Of six pairs of a yes and a no: 0.9 and 0.6 win both times, 0.2 wins once.
    assert auc(pairs) == pytest.approx(5 / 6)
    assert spearman([(1, 1), (2, 3), (3, 2), (4, 4)]) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert complete_pairs([0.5, None, 1.0, 0.25], [True, True, None, False]) == [(0.5, 1.0), (0.25, 0.0)]
    constant = [(0.5, 0.0), (0.5, 1.0)]
    assert [kappa(constant), spearman(constant), auc(constant), auc([(0.1, 0.5), (0.9, 0.51)])] == [None, None, 0.5, 1]
    assert [number([]) for number in (accuracy, kappa, spearman, auc)] == [None] * 4


# -- metrics ----------------------------------------------------------------------------------------------------------


@cache
def of_every_form():
    return [*cases(12), *compound_cases(2), *composition_cases(4)]


def test_every_installed_metric_is_tried_once_a_protocol_and_has_a_value_somewhere():
    metrics, skipped = installed_metrics(scene_experts(), of_every_form())
    specs = [one.spec for one in metrics]
    assert len(specs) == len(set(specs))
    assert {"edival-if?protocol=paper", "edival-cc?protocol=fixed", "edit-balanced", "guards", *VARIANTS} <= set(specs)
    assert all("composition, which takes" in reason for reason in skipped.values())
    truths = {one.spec: (one.truth_column, one.main_statistic) for one in metrics}
    assert truths["edival-if?protocol=paper"] == ("followed", "AUC")
    assert (truths["edival-o"], truths["guards"]) == (("overall", "Spearman"), ("clean", "AUC"))
    groups = metrics_by_system(metrics)
    assert sum(map(len, groups.values())) == len(metrics)
    assert "others" not in groups
    assert groups["Complex-Edit"][0].name == "complex-edit-if numeric n=4"
    swept = validity_run.noise_sweep_metrics(metrics)
    assert {one.spec for one in groups["EdiVal"]} < {one.spec for one in swept}
    assert 3 * len(swept) < 2 * len(metrics)
    runner = MetricRunner()
    study = ValidityStudy.of(of_every_form(), metrics, runner.run(metrics, (case.sample for case in of_every_form())))
    for metric in metrics:
        counts = study.statuses(metric)
        assert not counts["failed"], metric.spec
        assert counts["scored"], metric.spec
        assert counts["scored"] + counts["not_applicable"] > 0.5 * len(of_every_form()), metric.spec


def test_what_cannot_be_asked_is_listed_or_refused_with_the_reason():
    served = {role: expert for role, expert in scene_experts().items() if role != "preference"}
    _, skipped = installed_metrics(served, [case()])
    assert skipped["edival-vq"] == "no expert for the role preference"
    for spec, problem in (("edvial-if", "did you mean"), ("edival-vq", "preference"), ("gate", "gate")):
        with pytest.raises(SpecError, match=problem):
            select_metrics([spec], served, [case()])


def test_a_metric_somebody_installs_appears_by_itself(tmp_path, monkeypatch):
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[editcritic.rewards]\ntheirs = their_metric:Theirs\nlost = lost_one:Lost\n")
    (tmp_path / "their_metric.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from editcritic.reward import Card, Score\n"
        "@dataclass(frozen=True)\n"
        "class Theirs:\n"
        "    protocol: str = 'a'\n"
        "    card: ClassVar = Card('theirs', 1, 'theirs', protocols=('a', 'b'), aspect='consistency')\n"
        "    def __call__(self, sample):\n"
        "        return Score.of(1.0)\n"
        "        yield\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    metrics, skipped = installed_metrics(scene_experts(), [case()])
    theirs = [(one.name, one.truth_column) for one in metrics if one.card.name == "theirs"]
    assert theirs == [("theirs a", "kept"), ("theirs b", "kept")]
    assert "lost_one" in skipped["lost"]


def test_tables_follow_from_rows():
    these = [
        case("a", kept=0.9),
        case("b", kept=0.8),
        case("c", after=NOISIER, followed=False, kept=0.7, mode="nothing", severity=1.0, is_hack=True),
        case("d", "Change the background to sand", SCENE, followed=False, kept=0.2, mode="wrong_object", severity=0.5),
    ]
    values = {"a": 0.9, "b": None, "c": 0.6, "d": 0.1}
    metric = fixed(values, "followed")
    study = study_of(these, metric)
    assert study.statuses(metric) == {"scored": 3, "abstained": 1}
    followed = truth_agreement(study, metric, "followed")
    assert followed["accuracy"] == pytest.approx(2 / 3)
    assert followed["AUC"] == 1.0
    assert truth_agreement(study, metric, "kept")["Spearman"] == 1.0
    assert truth_agreement(study, metric, "clean")["AUC"] == 0.5
    no_share = fixed(values, "followed", range=(None, None))
    assert truth_agreement(study_of(these, no_share), no_share, "followed")["accuracy"] is None
    assert of_kind(study, metric, "background_change") == (None, 1)
    assert of_kind(study, metric, "subject_remove") == (1.0, 2)
    assert modes(these) == ["", "wrong_object", "nothing"]
    assert [of_mode(study, metric, mode) for mode in modes(these)] == [(0.9, 1.0), (0.1, 0.0), (0.6, 1.0)]


# -- the oracle -------------------------------------------------------------------------------------------------------


def test_the_oracle_knows_what_is_in_a_scene_and_abstains_elsewhere():
    one = case(
        "o",
        "Replace red circle with red star",
        SCENE.without([1]).with_object(SceneObject(4, "star", "red", 0.25, 0.3, 0.25, 0.25)),
    )
    source, edited = one.sample.source, one.sample.edited
    oracle: Any = Oracle([one])

    def judged(topic, *images, **slots):
        (reply,) = oracle([Judge((Message((*images, "?")),), YesNo(), f"edival/{topic}", tuple(slots.items()))])
        return reply.text

    (found,) = oracle([Detect(source, ("blue square", "red circle", "green circle"))])
    assert [(box.label, box.score) for box in found.boxes] == [
        ("blue square", 0.9),
        ("red circle", 0.9),
        ("green circle", 0.55),
    ]
    (read,) = oracle([ReadText(source)])
    assert [line.text for line in read.lines] == ["EXIT"]
    assert judged("added", source, edited, new="red star") == "yes"
    assert judged("replaced", source, edited, object="red circle", new="red star") == "yes"
    assert judged("replaced", edited, source, object="yellow sign", new="red star") == "no"
    assert judged("background", source, value="sky") == "yes"
    crop = source.crop(*(round(side * source.width) for side in (0.55, 0.45, 0.85, 0.75)))
    assert judged("material", crop, object="wood blue square", value="wood") == "yes"
    assert isinstance(oracle([Judge((Message(("?", edited)),), YesNo(), "somebody/else")])[0], Abstention)
    assert isinstance(Oracle([case(before=None)])([Detect(source, ("red circle",))])[0], Abstention)


def test_honest_edits_of_all_tasks_are_followed_by_its_word():
    honest = [one for one in cases(60, seed=3) if not one.mode]
    experts = dict.fromkeys(("detector", "judge", "reader"), Oracle(honest))
    scores = Reward(InstructionFollowing(), experts, on_failures="none")([one.sample for one in honest])
    assert [s.reason for s, one in zip(scores, honest, strict=True) if s.value != one.truth.followed] == []


# -- checks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "value", "cause"),
    [
        (case(), 0.0, "expert"),
        (case(), None, "expert"),
        (case(after=NOISIER), 0.0, "rule"),  # whatever the image shows
        (case(before=None), 0.0, "unknown"),
    ],
)
def test_a_wrong_verdict_has_its_cause(edit, value, cause):
    (metric,) = select_metrics([validity_run.PAPER], scene_experts(), [edit])
    hack = case("hack", after=NOISIER, before=edit.before, followed=False, mode="nothing", is_hack=True)
    rows = [
        MetricValue(0, validity_run.PAPER, value, "scored", "they saw a circle"),
        MetricValue(1, validity_run.PAPER, 0.0, "scored", ""),
    ]
    verdicts: Any = validity_run.compare_verdicts(
        ValidityStudy([edit, hack], [metric], {validity_run.PAPER: rows}), validity_run.PAPER
    )
    (wrong,) = verdicts.disagreements
    assert (wrong.case_index, wrong.cause, wrong.reason) == (0, cause, "they saw a circle")
    (check,) = validity_run.check_agreement({validity_run.PAPER: verdicts})
    assert (verdicts.agreements, verdicts.agreement_without_hacks, check.measured) == (1, 0.0, 0.5)
    assert validity_run.compare_verdicts(study_of([], fixed({})), validity_run.PAPER) is None


def test_ties_and_drift_are_counted_within_their_groups():
    groups = [[case(f"{group}{number}") for number in range(3)] for group in "ab"]
    names = [one.sample.id for group in groups for one in group]
    values = dict(zip(names, [0.6, 0.6, 0.7, 0.6, None, 0.8], strict=True))
    check = validity_run.check_ties(fixed(values), groups, MetricRunner())
    assert check.measured == pytest.approx(1 / 4)
    assert "1 edits have no value" in check.note
    (series,) = drift_series(1, seed=1)
    falling = {one.sample.id: 1 - one.severity for one in series}
    flat = [case(f"flat {n}", severity=n / 10) for n in range(3)]
    values = {**falling, series[-1].sample.id: None, **{one.sample.id: 0.5 for one in flat}}
    points, (mean, lowest) = validity_run.measure_drift(fixed(values), [series, flat], MetricRunner())
    assert (len(points[0]), mean.measured, lowest.measured) == (len(series) - 1, 0.5, 0.0)


@pytest.mark.parametrize(
    ("dear", "honest", "violations", "passed"),
    [(0.5, 0.5, [(4, 0)], False), (0.3, 0.5, [], True), (0.3, None, [], False)],
)
def test_a_hack_that_is_worth_as_much_as_an_honest_edit_violates(dear, honest, violations, passed):
    these = [case("honest"), case("unknown"), case("missed", followed=False)]
    these += [case(name, followed=False, mode="nothing", is_hack=True) for name in ("cheap", "dear", "mute")]
    values = {"honest": honest, "unknown": None, "missed": 0.1, "cheap": 0.2, "dear": dear, "mute": None}
    found = validity_run.measure_hacking(study_of(these, fixed(values)), 0, "fixed", count=50)
    assert [(hack.case, good.case) for hack, good in found.violations] == violations
    assert found.check.passed is passed


# -- noise and processes ----------------------------------------------------------------------------------------------


def test_noise_is_put_on_cached_answers_and_a_judge_always_turned_round_is_always_wrong():
    backdrops = [one for one in cases(60, seed=5) if one.task == "background_change" and one.mode != "pasted_source"]
    metrics, runner = select_metrics(["edival-if"], scene_experts(), backdrops), MetricRunner()
    sweep = validity_run.run_noise_sweep(backdrops, metrics, runner, 0, levels=(0.0, 1.0))
    statistics: Any = sweep.statistics["edival-if"]
    clean = statistics["misses", 0.0]
    assert clean > 0.9
    assert {statistics[kind, 0.0] for kind in validity_run.KINDS} == {clean}
    assert (statistics["flips", 1.0], statistics["misses", 1.0]) == (pytest.approx(1 - clean), clean)
    assert sweep.uncached_count == len({one.sample.edited for one in backdrops})
    assert sweep.query_count == sweep.uncached_count * (1 + len(validity_run.KINDS))
    assert validity_run.run_noise_sweep(backdrops, metrics, runner, 0, levels=(0.0, 1.0)).uncached_count == 0


def test_several_processes_find_what_one_finds():
    samples = [one.sample for one in cases(20, seed=3)]
    specs = ["edival-if?dense=true", "edival-cc?protocol=fixed&similarity=l1"]
    metrics = select_metrics(specs, scene_experts(), cases(20, seed=3))
    one, several, noise = MetricRunner(), MetricRunner(2), ExpertNoise("misses", 0.4, seed=1)
    try:
        rows = several.run(metrics, samples)
        assert rows == one.run(metrics, samples)
        assert [(row.case, row.spec) for row in rows[:4]] == [(n, spec) for n in range(2) for spec in specs]
        assert several.run(metrics, samples, noise) == one.run(metrics, samples, noise) != rows
        queries, hits = several.cache_counts()
        assert queries > hits > 0
    finally:
        several.close()


def test_the_command_writes_the_report_and_prints_the_numbers(tmp_path, capsys):
    out = tmp_path / "v.html"
    arguments = ["--num-cases", "18", "--seed", "2", "--reward", validity_run.PAPER, "--reward", "edit-balanced"]
    assert main([*arguments, "--processes", "1", "--out", str(out)]) in (0, 1)
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("edival-if paper", "edit-balanced", "pairs in which a hack pays"))
    page = out.read_text(encoding="utf-8")
    assert all(f"<th>{kind} 0.4</th>" in page for kind in validity_run.KINDS)
    assert "python -m studies.validity --num-cases 18" in page
    assert page.count("data:image/png") == 3  # verdicts, hacks, noise
    assert main([*arguments[:4], "--no-noise-sweep", "--reward", "guard-not-a-copy", "--out", str(out)]) == 0
    assert "guard-not-a-copy" in capsys.readouterr().out
    with pytest.raises(SpecError, match="did you mean edival-if"):
        main(["--num-cases", "9", "--reward", "edvial-if", "--out", str(out)])
