"""Rewards with known faults are found out, by the families that are for them, and by no others."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.integrations.serving.client import RemoteReward
from editcritic.integrations.serving.server import ScoringService, serve_in_thread
from editcritic.reward import EditSample, Engine, Image, ImageError, Reward
from editcritic.reward.audit import AuditReport, Variant, all_families, audit, select_families
from editcritic.reward.audit.audited_edit import AuditedEdit
from editcritic.reward.audit.run_audit import AuditRun
from editcritic.reward.queries import Measurement

from ..fakes import Fake, Rated
from .audit_cases import AMOUNTS, brightness, darker, photographs


def violations(report: AuditReport) -> dict[str, int]:
    """Of the families that have some."""
    return {finding.family.name: finding.rate.violations for finding in report.findings if finding.rate.violations}


def test_the_score_of_the_brightness_is_what_was_taken_from_it():
    bright = [replace(sample, edited=_brighter(sample.edited)) for sample in photographs()]
    report = audit(brightness, bright, families=[darker("lower"), darker("equal", "near")], tolerance=0.0)
    lower, near = report.findings
    assert (lower.rate.violations, near.rate.violations) == (0, 3 * len(photographs()))
    assert lower.gain is not None
    assert lower.gain.value == pytest.approx(-sum(AMOUNTS) / 3 / report.scale)
    assert lower.worst == pytest.approx(-min(AMOUNTS) / report.scale)
    assert near.worst == pytest.approx(max(AMOUNTS) / report.scale)
    sensitivity = report.sensitivity("preservation")
    assert sensitivity is not None
    assert sensitivity.value == pytest.approx(sum(AMOUNTS) / 3 / report.scale)
    assert report.best_hack is not None
    assert report.best_hack.value == pytest.approx(-min(AMOUNTS) / report.scale)


def _brighter(image: Image) -> Image:
    return Image.of(np.maximum(image.pixels, int(max(AMOUNTS))))


def test_rewards_that_depend_on_their_batch_are_found():
    def centred(samples: Sequence[EditSample]) -> list[float]:
        values = []
        for sample in samples:
            with suppress(ImageError):
                values.append(float(sample.edited.pixels.mean()))
        mean = sum(values) / len(values)
        return [float(sample.edited.pixels.mean()) - mean for sample in samples]

    found = violations(audit(centred, photographs(), families=select_families(["same"])))
    assert {"batch-order", "companions"} <= set(found)
    report = audit(brightness, photographs(), families=select_families(["companions"]))
    assert [rate.violations for rate in report.findings[0].by_severity] == [0, 0, len(photographs())]


@pytest.mark.parametrize("is_metric", [False, True], ids=["function", "expert behind its cache"])
def test_noise_is_found_by_asking_again(is_metric: bool):
    generator = random.Random(0)
    expert = Fake(lambda query: Measurement(generator.random()))
    noisy = (
        Reward(Rated(), {"preference": expert}) if is_metric else lambda samples: [generator.random() for _ in samples]
    )
    assert violations(audit(noisy, photographs()[:4], families=select_families(["repeated"]))) == {"repeated": 12}


@pytest.mark.parametrize(
    ("reads", "family", "count"),
    [
        (lambda sample: "perfect" in sample.id, "sample-id", 1),
        (lambda sample: sample.metadata.get("score", 0) > 5, "sample-metadata", 1),
        (lambda sample: "lease" in sample.instruction, "polite-words", 1),
        (lambda sample: sample.instruction.endswith("."), "spaces-and-case", 1),
        (lambda sample: "perfect" in str(sample.edited._path), "file-name", 1),
    ],
)
def test_a_reward_that_reads_what_says_nothing_is_found(reads: Callable[[EditSample], bool], family: str, count: int):
    def reward(samples: Sequence[EditSample]) -> list[float | None]:
        return [None if _unreadable(sample) else 0.5 + 0.4 * reads(sample) for sample in samples]

    report = audit(reward, photographs(), families=select_families(["same", "equal"]))
    finding = next(one for one in report.findings if one.family.name == family)
    assert violations(report) == {family: finding.rate.violations}
    assert finding.rate.violations == len(photographs()) * count


def _unreadable(sample: EditSample) -> bool:
    try:
        return not sample.edited.pixels.size
    except ImageError:
        return True


def test_a_failure_that_becomes_a_number_is_found():
    def careless(samples: Sequence[EditSample]) -> list[float]:
        values = []
        for sample in samples:
            try:
                values.append(float(sample.edited.pixels.mean()))
            except ImageError:
                values.append(0.0)
        return values

    report = audit(careless, photographs()[:3], families=select_families(["no_number"]))
    assert report.overall.value == 1.0
    honest = audit(brightness, photographs()[:3], families=select_families(["broken-file", "missing-file"]))
    assert (honest.overall.violations, honest.overall.trials) == (0, 18)
    assert {trial.variant.status for trial in honest.trials} == {"failed"}

    def claimed(samples: Sequence[EditSample]) -> list[float]:
        assert all(sample.edited.pixels.nbytes < 2**20 for sample in samples)
        return [0.5] * len(samples)

    report = audit(claimed, photographs()[:1], families=select_families(["extreme-size"]))
    assert [trial.variant.value for trial in report.trials] == [0.5, 0.5, None]
    assert "60,000 x 60,000 pixels" in report.trials[2].variant.reason


@pytest.mark.parametrize("value", [float("nan"), None, "0.5", 10**400])
def test_a_reward_without_a_number_is_compared_with_nothing(value):
    calls: Counter[int] = Counter()

    def nothing(samples: Sequence[EditSample]) -> list[Any]:
        calls[len(samples)] += 1
        return [value] * len(samples)

    report = audit(nothing, photographs())
    assert (report.overall.value, report.best_hack, list(report.trials)) == (None, None, [])
    assert calls == {len(photographs()): 1}
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert data["unscored_edits"] == len(photographs())


def test_a_family_that_fails_costs_its_own_variants_and_ends_nothing():
    def vary(edit: AuditedEdit, amount: float) -> Variant:
        if edit.sample.id == photographs()[1].id:
            raise np.linalg.LinAlgError("Singular matrix")
        return edit.picture(edit.after // 2)

    families = [darker("lower"), replace(darker("lower", "halved"), vary=vary)]
    report = audit(brightness, photographs()[:3], families=families)
    assert len(report.trials) == 2 * 3 * 3 - 3
    assert [finding.unmade for finding in report.findings] == [0, 3]
    assert report.stopped == ""
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert data["unmade"][0] == {
        "id": photographs()[1].id,
        "sample": 1,
        "family": "halved",
        "severity": 0,
        "reason": "LinAlgError: Singular matrix",
    }
    assert [row["unmade"] for row in data["families"]] == [0, 3]


def test_runs_stop_for_a_reason_and_their_files_are_gone():
    asked: list[int] = []

    def stop() -> str:
        asked.append(len(run.trials))
        return "enough" if len(run.trials) >= most else ""

    for most, count, stopped in ((9, 9, ""), (3, 3, "enough"), (0, 0, "enough")):  # noqa: B007  (`stop` reads it)
        with AuditRun(brightness, photographs()[:3], families=[darker("lower")]) as run:
            run.run(stop=stop)
            report = run.report()
        assert (len(report.trials), report.stopped) == (count, stopped)
    assert asked == [0, 3, 6, 0, 3, 0]
    left: list[int] = []
    with AuditRun(brightness, photographs()[:3], families=select_families(["file-name", "broken-file"])) as run:
        assert run.maker.folder is not None
        folder = run.maker.folder
        run.run(lambda: left.append(len(list(folder.iterdir()))))
        again = run.maker.variant(0, select_families(["file-name"])[0], 1)
        assert again is not None
        assert again.sample.edited == photographs()[0].edited
    assert left == [0, 0, 0]
    assert not folder.exists()


def odd_samples(folder: Path) -> list[EditSample]:
    one, other = photographs()[0], photographs()[3]
    height, width = one.edited.pixels.shape[:2]
    alpha = np.dstack([one.edited.pixels, np.full((height, width), 200, np.uint8)])
    tiny = Image.of(np.arange(27, dtype=np.uint8).reshape(3, 3, 3))
    (folder / "lost.png").write_bytes(b"")
    lost = Image(one.source.size, digest="1" * 64, path=folder / "lost.png")
    return [
        replace(one, id="larger", edited=one.edited.resized(331, 217)),
        replace(one, id="several", sources=(one.source, other.source)),
        replace(one, id="later", sources=(one.edited,), edited=other.edited.resized(*one.edited.size), history=(one,)),
        replace(one, id="alpha", edited=Image.of(alpha)),
        replace(one, id="tiny", sources=(tiny,), edited=Image.of(255 - tiny.pixels)),
        replace(one, id="row", edited=Image.of(one.edited.pixels[:1])),
        replace(one, id="copy", edited=one.source),
        replace(one, id="other words", instruction="把猫变成狗"),
        replace(one, id="no words", instruction=" "),
        replace(one, id="broken", edited=lost),
        replace(one, id="broken source", sources=(lost,)),
        replace(one, id="odd \n id <script>"),
    ]


def test_samples_of_any_kind_and_id_are_audited_with_all_families(tmp_path):
    report = audit(brightness, odd_samples(tmp_path))
    audited = {report.ids[trial.sample] for trial in report.trials}
    assert audited == {sample.id for sample in odd_samples(tmp_path)} - {"broken"}
    json.dumps(report.to_json(), allow_nan=False)
    twins = [replace(sample, id="a") for sample in photographs()[:2]]
    data = audit(brightness, twins, families=[darker("lower")]).to_json()
    assert [(trial["sample"], trial["id"]) for trial in data["trials"]] == [(0, "a")] * 3 + [(1, "a")] * 3
    report = audit(brightness, photographs()[:1])
    assert [finding.family for finding in report.findings] == list(all_families())
    alone = next(one for one in report.findings if one.family.name == "batch-order")
    assert (alone.rate.trials, alone.rate.value, alone.gain) == (0, None, None)


def test_a_users_mistakes_are_told():
    with pytest.raises(ValueError, match="an audit needs edits, got none: give 16 or more"):
        audit("any-edit", [])
    with pytest.raises(ValueError, match="from 0 to 1, got nan"):
        audit(brightness, photographs(), tolerance=float("nan"))
    with pytest.raises(ValueError, match="an audit needs families, got none"):
        audit(brightness, photographs(), families=())
    with pytest.raises(TypeError, match="an audit needs EditSamples, got dict"):
        audit(brightness, [{"id": "a"}])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="families are Family objects, got str: see `select_families`"):
        audit(brightness, photographs(), families=["blurred"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="there are two families named darker"):
        audit(brightness, photographs(), families=[darker("lower"), darker("equal")])
    with pytest.raises(ValueError, match="needs history"):
        audit(Reward(Historical(), {"preference": Fake()}), photographs())


class Historical(Rated):
    @property
    def card(self) -> Any:
        return replace(super().card, requires=("history",))


def test_a_report_says_what_its_experts_took():
    expert = Fake(jitter_s=0.005)
    pair = (photographs()[0], next(one for one in photographs() if one.source != photographs()[0].source))
    report = audit(Reward(Rated(), {"preference": expert}), pair, families=select_families(["same", "reencoded"]))
    (cost,) = report.expert_costs
    assert (cost.expert, cost.roles, cost.queries, cost.calls) == (
        *("fake", ("preference",)),
        *(sum(expert.seen.values()), len(expert.calls)),
    )
    assert cost.seconds_per_edit == pytest.approx(cost.seconds / report.scored)
    assert 0 < cost.seconds <= report.reward_seconds <= report.seconds
    batches = 3 * 2 + (2 + 3 + 4)  # of batch-order, and of companions
    alone = 3 * 6  # repeated, id, both metadata, file name, re-encoding
    assert report.scored == 2 * (1 + batches + alone)


def test_a_judge_server_is_audited_like_the_reward_that_it_serves():
    families = select_families(["reencoded", "unchanged-source", "companions", "broken-file"])
    with Engine() as engine:
        service = ScoringService(Reward(Rated(), {"preference": Fake(_mean)}, engine=engine))
        with serve_in_thread(service) as url:
            remote = RemoteReward(url, outage_timeout_s=20.0, timeout_s=60.0)
            served = audit(remote, photographs()[:2], families=families)
            strips = audit(remote, photographs()[:1], families=select_families(["extreme-size"]))
            remote.close()
        service.close()
    here = audit(Reward(Rated(), {"preference": Fake(_mean)}), photographs()[:2], families=families)
    assert [(trial.family, trial.severity, trial.variant.value) for trial in served.trials] == [
        (trial.family, trial.severity, trial.variant.value) for trial in here.trials
    ]
    assert [served.outcome(trial) for trial in served.trials] == [here.outcome(trial) for trial in here.trials]
    assert (served.expert_costs, served.identity, served.reward) == ([], here.identity, "rated")
    assert served.reward_seconds > 0
    assert violations(served).keys() <= {"unchanged-source"}
    assert strips.overall.violations == 0  # the server takes no such picture
    assert ["a side may be 200 times" in trial.variant.reason for trial in strips.trials] == [True, True, False]


def _mean(query: Any) -> Measurement:
    return Measurement(float(query.image.pixels.mean(dtype=np.float64)) / 255)


def test_any_edit_is_audited_by_its_name():
    report = audit("any-edit", photographs()[:1], experts="cpu", families=select_families(["sample-id", "blank"]))
    assert (report.reward, report.range) == ("any-edit", (0.0, 1.0))
    assert report.identity.startswith("any-edit@")
    assert [cost.seconds for cost in report.expert_costs] == sorted(
        (cost.seconds for cost in report.expert_costs), reverse=True
    )
    assert all(cost.roles for cost in report.expert_costs)


def test_a_reward_that_knows_the_row_of_a_batch_is_found_by_the_order():
    def odd(samples: Sequence[EditSample]) -> list[float]:
        return [value / 255 + 0.1 * (row % 2) for row, value in enumerate(brightness(samples))]

    report = audit(odd, photographs(), families=select_families(["batch-order"]))
    wrong = [sum(place % 2 != number % 2 for place in range(3)) for number in range(len(photographs()))]
    assert violations(report) == {"batch-order": sum(wrong)}


def test_an_edit_that_cannot_be_scored_is_left_out_and_the_others_are_not():
    def picky(samples: Sequence[EditSample]) -> list[float]:
        if any(sample.id.startswith(photographs()[1].id) for sample in samples):
            raise RuntimeError("no")
        return brightness(samples)

    report = audit(picky, photographs()[:3], families=[darker("lower")])
    assert {trial.sample for trial in report.trials} == {0, 2}
    assert report.edits[1].reason == "RuntimeError: no"
