"""A run pays for what it does and no more than it may, survives what fails, and never does a thing twice."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward import Box, EditSample
from editcritic.reward.queries import Failure, Measurement
from editcritic.verifiers import BestOfN, Budget, Journal, edit_request
from editcritic.verifiers.selection import (
    NoiseSpec,
    PartialCandidate,
    SelectionRun,
    SelectionStopped,
    generation,
    scoring,
)

from ..numpy_editor import Painter, Plain, graded, judge, pick, read, scenes, without_time


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys, editcritic.verifiers\n"
        "print(*{'torch', 'transformers', 'diffusers', 'scipy'} & {name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []


@settings(max_examples=20)  # each is a run or two
@given(
    n=st.integers(1, 5), samples=st.integers(1, 3), questions=st.integers(1, 3), role=st.sampled_from(["judge", "a"])
)
def test_what_was_spent_is_the_sum_of_what_was_done(n: int, samples: int, questions: int, role: str) -> None:
    painter, expert = Painter(), judge()
    qualities = ("following", "consistency", "second")[:questions]
    result = pick(BestOfN(n), samples, editor=painter, reward=graded(expert, *qualities, role=role))
    assert result.spent.nfe == result.full_cost.nfe == painter.evaluated == 8 * n * samples
    assert sum(expert.seen.values()) == n * samples * questions
    assert result.spent.judge_calls == (n * samples * questions if role == "judge" else 0)
    assert result.cached_cost.nfe == result.cached_cost.judge_calls == 0


@settings(max_examples=20)  # each is a run or two
@given(limit=st.integers(24, 130), n=st.integers(1, 6), batch=st.integers(1, 7))
def test_a_budget_of_evaluations_is_never_exceeded_and_fair(limit: int, n: int, batch: int) -> None:
    painter = Painter(batch_size=batch)
    result = pick(BestOfN(n), 3, editor=painter, budget=Budget(nfe=limit))
    counts = [len(selection.candidates) for selection in result]
    assert result.spent.nfe == painter.evaluated == 8 * sum(counts) <= limit
    assert sum(counts) == min(3 * n, limit // 8)
    assert max(counts) - min(counts) <= 1
    assert all(selection.winner is not None for selection in result)
    assert bool(result[0].stop_reason) == (limit // 8 < 3 * n)


def test_what_cannot_go_well_is_refused_before_anything_is_made() -> None:
    painter = Painter()
    uncounted = Plain(painter)
    uncounted.nfe = 0
    for samples, editor, budget, message in (
        (3, painter, Budget(nfe=23), r"23 NFE is too small.* 3 samples takes 24"),
        (1, uncounted, Budget(nfe=16), "limit judge calls or seconds"),
        (scenes(1) * 2, painter, None, "share an id"),
        ([], painter, None, "no samples to edit"),
    ):
        with pytest.raises(ValueError, match=message):
            pick(BestOfN(2), samples, editor=editor, budget=budget)
    assert not painter.calls


def test_seconds_stop_at_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    for module in (generation, scoring):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: clock.now))

    def slow(query: Any) -> Measurement:
        clock.now += 1.0
        return Measurement(read(query.image))

    result = pick(BestOfN(9), reward=graded(judge(rule=slow, batch=1)), budget=Budget(seconds=5.5))
    assert result.spent.seconds == 5.0
    assert len(result[0].candidates) == 5


def test_a_batch_is_scored_while_the_next_one_is_made() -> None:
    """Both sides wait for each other in the middle: apart, neither would get there."""
    met = threading.Barrier(2, timeout=60)

    class Waiting(Painter):
        def edit(self, *args: Any, **options: Any) -> Any:
            if len(self.calls) == 1:
                met.wait()
            return super().edit(*args, **options)

    def rule(query: Any) -> Measurement:
        if len(expert.calls) == 1:
            met.wait()
        return Measurement(read(query.image))

    expert = judge(rule=rule, batch=1)
    together = pick(BestOfN(4), editor=Waiting(batch_size=2), reward=graded(expert))
    apart = pick(BestOfN(4), editor=Painter(batch_size=4))
    assert not met.broken
    assert without_time(together.to_json()) == without_time(apart.to_json())


@settings(max_examples=20)  # each is a run or two
@given(bad=st.sets(st.integers(0, 7), max_size=6), batch=st.integers(1, 9))
def test_a_bad_seed_is_a_failed_candidate_and_no_other_is_lost(bad: set[int], batch: int) -> None:
    good = pick(BestOfN(9))[0]
    (result,) = pick(BestOfN(9), editor=Painter(batch_size=batch, bad_seeds=bad - {0}))
    for one, other in zip(result.candidates, good.candidates, strict=True):
        if one.noise.seed in bad - {0}:
            assert one.status == "failed"
            assert [one.value, one.picture] == [None, None]
            assert f"no paint for [{one.noise.seed}]" in one.score.reason
        else:
            assert (one.status, one.picture, one.value) == ("made", other.picture, other.value)
    assert result.value == max(one.value for one in result.candidates if one.value is not None)
    assert result.spent.nfe == 8 * 9


def test_a_batch_that_is_too_large_is_halved() -> None:
    painter = Painter(batch_size=8, most=3)
    result = pick(BestOfN(8), editor=painter)
    assert painter.calls == [8, 4, 2, 2, 4, 2, 2]
    assert without_time(result.to_json()) == without_time(pick(BestOfN(8)).to_json())


def test_an_editor_that_always_fails_stops_the_run() -> None:
    painter = Painter(batch_size=2, broken=True)
    with pytest.raises(SelectionStopped, match="no paint"):
        pick(BestOfN(40), 2, editor=painter)
    assert len(painter.calls) < 8


def test_an_editor_that_has_made_pictures_may_fail_for_some_for_good() -> None:
    """Run again with what is known, it has the same result, though nothing that can be made is left to make."""
    painter, journal = Painter(batch_size=1, bad_seeds=range(1, 9)), Journal()
    first, second = (pick(BestOfN(9), editor=painter, journal=journal) for _ in range(2))
    assert first[0].winner is not None
    assert without_time(second.to_json()) == without_time(first.to_json())


def test_an_editor_that_makes_too_few_pictures_has_failed() -> None:
    class Lazy(Painter):
        def edit(self, *args: Any, **options: Any) -> Any:
            return super().edit(*args, **options)[:0]

    with pytest.raises(SelectionStopped, match="returned 0 images for 1 requests"):
        pick(BestOfN(4), editor=Lazy())


def test_a_judge_that_breaks_down_stops_the_run_and_nothing_is_lost() -> None:
    journal, painter = Journal(), Painter(batch_size=4)
    left = [8]

    def rule(query: Any) -> Any:
        left[0] -= 1
        return Measurement(read(query.image)) if left[0] >= 0 else Failure("gone home")

    with pytest.raises(SelectionStopped, match="gone home") as stopped:
        pick(BestOfN(20), 2, editor=painter, reward=graded(judge(rule=rule)), journal=journal)
    assert stopped.value.journal is journal
    made = sum(painter.calls)
    assert made < 40  # nobody would have scored the others
    again, healthy = Painter(batch_size=4), judge()
    result = pick(BestOfN(20), 2, editor=again, reward=graded(healthy), journal=journal)
    assert sum(again.calls) == 40 - made
    assert sum(healthy.seen.values()) == 40 - 8
    assert result.cached_cost.nfe == 8 * made
    assert result.cached_cost.judge_calls == 8
    whole = pick(BestOfN(20), 2)
    assert without_time(result.to_json()) == without_time(whole.to_json())


def staged_to_the_end(run: SelectionRun, samples: Sequence[EditSample], stops: Sequence[int]) -> list[PartialCandidate]:
    partials = [PartialCandidate(run.request(sample, number)) for sample in samples for number in range(3)]
    for until in [*stops, run.nfe_per_image]:
        partials = run.advance(partials, until)
    return partials


@settings(max_examples=20)  # each is a run or two
@given(stops=st.sets(st.integers(1, 7), max_size=3), batch=st.integers(1, 7))
def test_stages_lead_to_the_same_pictures(stops: set[int], batch: int) -> None:
    painter, samples = Painter(batch_size=batch), scenes(2)
    staged = SelectionRun(painter, graded())
    partials = staged_to_the_end(staged, samples, sorted(stops))
    result = [staged.to_candidate(one) for one in partials]
    whole = SelectionRun(Painter(), graded())
    expected = whole.generate([whole.request(sample, number) for sample in samples for number in range(3)])
    assert [(one.picture, one.value, one.status) for one in result] == [
        (o.picture, o.value, o.status) for o in expected
    ]
    assert painter.evaluated == staged.spent.nfe == sum(one.cost.nfe for one in result) == 6 * 8
    assert [[look.step for look in one.previews] for one in result] == [[*sorted(stops), 8]] * 6


def test_a_lost_draft_is_made_again_and_not_charged_again() -> None:
    journal, samples = Journal(), scenes(1)
    first = SelectionRun(Painter(), graded(), journal=journal)
    stopped = first.advance([PartialCandidate(first.request(samples[0], 0))], 4)
    journal._states.clear()
    painter = Painter()
    second = SelectionRun(painter, graded(), journal=journal)
    (result,) = second.advance(second.advance([PartialCandidate(second.request(samples[0], 0))], 4), 8)
    assert stopped[0].previews[0].picture == result.previews[0].picture
    assert painter.evaluated == 8
    assert second.spent.nfe == result.cost.nfe == 8


def test_a_picture_costs_the_same_whoever_made_it() -> None:
    """By one selector in stages, by the other in one go: what each spends does not depend on who came first."""
    journal, samples, painter = Journal(), scenes(2), Painter()
    staged = SelectionRun(painter, graded(), journal=journal)
    staged_to_the_end(staged, samples, [3])
    whole = pick(BestOfN(4), samples, editor=painter, journal=journal)
    again = SelectionRun(painter, graded(), journal=journal)
    staged_to_the_end(again, samples, [3])
    assert whole.spent.nfe == 4 * 2 * 8
    assert whole.cached_cost.nfe == 3 * 2 * 8
    assert again.spent.nfe == staged.spent.nfe == 3 * 2 * 8
    assert painter.evaluated == (3 + 1) * 2 * 8


def test_neighbours_and_ways_back_are_made_and_paid_by_where_they_start() -> None:
    painter, (sample,) = Painter(), scenes(1)
    run = SelectionRun(painter, graded())
    run.advance([PartialCandidate(run.request(sample, 0))], 6)
    parent = run.candidate_noise(0)
    near, back = parent.perturbed(71, 0.1), parent.renoised(72, preview_step=6, restart_step=5)
    plain, beside, behind = run.generate(
        [replace(run.request(sample, number), noise=noise) for number, noise in enumerate((parent, near, back))]
    )
    assert [one.cost.nfe for one in (plain, beside, behind)] == [8, 8, 3]
    assert painter.evaluated == 6 + 8 + 8 + 3
    assert None not in (plain.value, beside.value, behind.value)
    assert abs((plain.value or 0) - (beside.value or 0)) < 0.2


@pytest.mark.parametrize("noise", [NoiseSpec(0), NoiseSpec(0).perturbed(1, 0.5)])
def test_an_editor_that_cannot_stop_half_way_says_so(noise: NoiseSpec) -> None:
    painter, (sample,) = Painter(), scenes(1)
    run = SelectionRun(Plain(painter), graded())
    want = replace(run.request(sample, 0), noise=noise)
    with pytest.raises(TypeError, match="is not a StepwiseEditor"):
        run.advance([PartialCandidate(want)], 4) if noise.parent is None else run.generate([want])
    assert not painter.calls


def test_a_budget_that_ends_between_stages_leaves_candidates_stopped() -> None:
    run = SelectionRun(Painter(batch_size=2), graded(), budget=Budget(nfe=20))
    partials = staged_to_the_end(run, scenes(1), [4])
    result = [run.to_candidate(one) for one in partials]
    assert run.spent.nfe == 20
    assert [one.status for one in result] == ["made", "made", "stopped"]
    assert result[2].value is None
    assert "stopped after 4 of 8" in result[2].score.reason


def test_boxes_of_what_is_to_be_edited_may_be_pixel_corners() -> None:
    source = scenes(1)[0].source
    sample = edit_request("make it blue", source, boxes={"cup": [(0, 0, 4, 2)], "plate": [Box(0.5, 0.5, 1.0, 1.0)]})
    assert sample.boxes["cup"] == (Box(0.25, 0.125, 0.5, 0.25, label="cup"),)
    assert sample.boxes["plate"] == (Box(0.5, 0.5, 1.0, 1.0, label="plate"),)
    assert not edit_request("make it blue", source).boxes


def test_scores_are_shared_by_equal_edits_and_not_by_edits_whose_earlier_turns_differ() -> None:
    first, second = (replace(scene, edited=scene.source) for scene in scenes(2))
    expert = judge()
    scorer = scoring.JournaledScorer(graded(expert), Journal())

    def cached(*history: EditSample, **fields: Any) -> bool:
        ((_, _, known),) = scorer([replace(second, history=history, **fields)])
        return known

    assert not cached(first)
    assert cached(replace(first, id="renamed", group="another"), id="x", group="y")
    assert not cached(replace(first, boxes={"cup": (Box(0.5, 0.5, 0.1, 0.1),)}))
    assert not cached(first, sources=(second.source, first.source))
