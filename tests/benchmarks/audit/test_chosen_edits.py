"""An audit ends where its last scores all failed for want of an expert, and not for a single time-out."""

from collections.abc import Sequence

import pytest

from editcritic.benchmarks.audit.chosen_edits import latest_scores, outage
from editcritic.reward import EditSample, Score
from editcritic.reward.audit import AuditRun, select_families

from ...reward.audit.audit_cases import photographs

DOWN = Score.failed("nobody is there", cause="infrastructure")
FAILED = Score.failed("no such colour")
GOOD = Score.of(0.5)


@pytest.mark.parametrize(
    ("scores", "edits", "ends"),
    [
        ([DOWN] * 16, 100, True),
        ([GOOD, *[DOWN] * 16], 100, True),
        ([DOWN] * 15, 100, False),
        ([*[DOWN] * 16, GOOD], 100, False),
        ([*[DOWN] * 15, FAILED], 100, False),
        ([GOOD, *[DOWN] * 6], 6, True),
        ([GOOD, *[DOWN] * 5], 6, False),
        ([GOOD, *[DOWN] * 4], 1, True),
        ([GOOD, *[DOWN] * 3], 1, False),
        ([GOOD, DOWN], 1, False),
        ([], 1, False),
    ],
)
def test_the_last_scores_decide(scores: Sequence[Score], edits: int, ends: bool) -> None:
    text = outage(scores, edits)
    assert bool(text) == ends
    assert not ends or text.endswith("scores failed: nobody is there")


def test_the_latest_are_of_what_can_be_read() -> None:
    def reward(samples: Sequence[EditSample]) -> list[Score]:
        return [Score.of(float(len(sample.edited.pixels))) for sample in samples]  # raises for a broken picture

    with AuditRun(reward, photographs()[:2], families=select_families(["blurred", "broken-file"])) as run:
        run.run()
        variants = [trial.variant for trial in run.trials if trial.family == "blurred"]
        assert len(variants) < len(run.trials)
        assert latest_scores(run) == [*run.edits, *variants]


def test_a_single_time_out_at_the_end_of_a_batch_ends_no_audit_of_one_edit() -> None:
    def reward(samples: Sequence[EditSample]) -> list[Score]:
        return [DOWN if len(samples) > 1 and sample is samples[-1] else GOOD for sample in samples]

    with AuditRun(reward, photographs()[:1], families=select_families(["lower"])) as run:
        run.run(stop=lambda: outage(latest_scores(run), 1))
        assert run.stopped == ""
        assert sum(trial.variant.cause == "infrastructure" for trial in run.trials) >= 2
