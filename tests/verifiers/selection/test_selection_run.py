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

from editcritic.reward import Box, EditSample, Failure, Measured
from editcritic.verifiers import (
    BestOf,
    Budget,
    Journal,
    Noise,
    Run,
    RunStopped,
    Staged,
    making,
    scoring,
    select,
    unedited,
)

from .editors import Painter, Plain, graded, judge, read, scenes
from .test_best_of import without_time


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys, editcritic.verifiers\n"
        "print(*{'torch', 'transformers', 'diffusers', 'scipy'} & {name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []


# -- paying -----------------------------------------------------------------------------------------------------------


@settings(max_examples=20)  # each is a run or two
@given(n=st.integers(1, 5), samples=st.integers(1, 3), questions=st.integers(1, 3))
def test_what_was_spent_is_the_sum_of_what_was_done(n: int, samples: int, questions: int) -> None:
    painter, expert = Painter(), judge()
    qualities = ("following", "consistency", "second")[:questions]

    found = select(BestOf(n), scenes(samples), editor=painter, reward=graded(expert, *qualities))

    assert found.spent.evaluations == painter.evaluated == 8 * n * samples
    assert found.spent.judge_calls == sum(expert.seen.values()) == n * samples * questions
    assert found.unpruned.evaluations == found.spent.evaluations
    assert found.known.evaluations == found.known.judge_calls == 0


def test_only_a_judge_counts_as_a_judge() -> None:
    found = select(BestOf(2), scenes(1), editor=Painter(), reward=graded(role="preference"))
    assert found.spent.judge_calls == 0


@settings(max_examples=20)  # each is a run or two
@given(limit=st.integers(24, 130), n=st.integers(1, 6), batch=st.integers(1, 7))
def test_a_budget_of_evaluations_is_never_exceeded_and_fair(limit: int, n: int, batch: int) -> None:
    painter = Painter(batch=batch)

    found = select(BestOf(n), scenes(3), editor=painter, reward=graded(), budget=Budget(evaluations=limit))

    counts = [len(selection.candidates) for selection in found]
    assert found.spent.evaluations == painter.evaluated == 8 * sum(counts) <= limit
    assert sum(counts) == min(3 * n, limit // 8)
    assert max(counts) - min(counts) <= 1
    assert all(selection.winner is not None for selection in found)
    assert bool(found[0].ended) == (limit // 8 < 3 * n)


def test_why_it_ended_is_said() -> None:
    (found,) = select(BestOf(9), scenes(1), editor=Painter(), reward=graded(), budget=Budget(evaluations=20))
    assert found.ended == "16 of 20 evaluations are spent"


def test_a_budget_too_small_for_a_candidate_of_each_is_refused_before_anything_is_made() -> None:
    painter = Painter()
    with pytest.raises(ValueError, match=r"23 denoiser evaluations is too small.* 3 samples takes 24"):
        select(BestOf(2), scenes(3), editor=painter, reward=graded(), budget=Budget(evaluations=23))
    assert not painter.calls


def test_a_budget_of_evaluations_is_refused_where_nobody_counts_them() -> None:
    editor = Plain(Painter())
    editor.evaluations = 0
    with pytest.raises(ValueError, match="limit judge calls or seconds"):
        select(BestOf(2), scenes(1), editor=editor, reward=graded(), budget=Budget(evaluations=16))
    assert select(BestOf(2), scenes(1), editor=editor, reward=graded()).spent.evaluations == 0


def test_judge_calls_stop_at_their_budget() -> None:
    expert = judge()
    found = select(
        BestOf(9), scenes(2), editor=Painter(), reward=graded(expert, "following", "second"),
        budget=Budget(judge_calls=7),
    )  # fmt: skip

    assert found.spent.judge_calls == sum(expert.seen.values()) == 6
    assert [len(selection.candidates) for selection in found] == [2, 1]
    assert found[0].ended == "6 of 7 judge calls are spent"


def test_seconds_stop_at_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    for module in (making, scoring):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: clock.now))

    def slow(query: Any) -> Measured:
        clock.now += 1.0
        return Measured(read(query.image))

    found = select(
        BestOf(9), scenes(1), editor=Painter(), reward=graded(judge(rule=slow, batch=1)), budget=Budget(seconds=5.5)
    )

    assert found.spent.seconds == 5.0
    assert len(found[0].candidates) == 5


def test_samples_with_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="share an id"):
        select(BestOf(1), scenes(1) * 2, editor=Painter(), reward=graded())
    with pytest.raises(ValueError, match="nothing to edit"):
        select(BestOf(1), [], editor=Painter(), reward=graded())


# -- overlapping ------------------------------------------------------------------------------------------------------


def test_a_batch_is_scored_while_the_next_one_is_made() -> None:
    """Both sides wait for each other in the middle: apart, neither would get there."""
    met = threading.Barrier(2, timeout=60)

    class Waiting(Painter):
        def edit(self, *given: Any, **named: Any) -> Any:
            if len(self.calls) == 1:
                met.wait()
            return super().edit(*given, **named)

    def rule(query: Any) -> Measured:
        if len(expert.calls) == 1:
            met.wait()
        return Measured(read(query.image))

    expert = judge(rule=rule, batch=1)
    together = select(BestOf(4), scenes(1), editor=Waiting(batch=2), reward=graded(expert))
    apart = select(BestOf(4), scenes(1), editor=Painter(batch=4), reward=graded())

    assert not met.broken
    assert without_time(together.to_json()) == without_time(apart.to_json())


# -- editors that fail ------------------------------------------------------------------------------------------------


@settings(max_examples=20)  # each is a run or two
@given(bad=st.sets(st.integers(0, 7), max_size=6), batch=st.integers(1, 9))
def test_a_bad_seed_is_a_failed_candidate_and_no_other_is_lost(bad: set[int], batch: int) -> None:
    good = select(BestOf(9), scenes(1), editor=Painter(), reward=graded())[0]
    (found,) = select(BestOf(9), scenes(1), editor=Painter(batch=batch, bad_seeds=bad - {0}), reward=graded())

    for one, other in zip(found.candidates, good.candidates, strict=True):
        if one.noise.seed in bad - {0}:
            assert one.fate == "failed"
            assert [one.value, one.picture] == [None, None]
            assert f"no paint for [{one.noise.seed}]" in one.score.reason
        else:
            assert (one.fate, one.picture, one.value) == ("made", other.picture, other.value)
    assert found.value == max(one.value for one in found.candidates if one.value is not None)
    assert found.spent.evaluations == 8 * 9


def test_a_batch_that_is_too_large_is_halved() -> None:
    painter = Painter(batch=8, most=3)
    found = select(BestOf(8), scenes(1), editor=painter, reward=graded())

    assert painter.calls == [8, 4, 2, 2, 4, 2, 2]
    assert without_time(found.to_json()) == without_time(
        select(BestOf(8), scenes(1), editor=Painter(), reward=graded()).to_json()
    )


def test_a_call_that_fails_once_loses_nothing() -> None:
    painter = Painter(batch=4, bad_calls=[2])
    (found,) = select(BestOf(8), scenes(1), editor=painter, reward=graded())

    assert painter.calls == [4, 4, 2, 2]
    assert all(one.fate == "made" for one in found.candidates)


def test_an_editor_that_always_fails_stops_the_run() -> None:
    painter = Painter(batch=2, broken=True)
    with pytest.raises(RunStopped, match="no paint"):
        select(BestOf(40), scenes(2), editor=painter, reward=graded())
    assert len(painter.calls) < 8


def test_an_editor_that_has_made_pictures_may_fail_for_some_for_good() -> None:
    """Run again with what is known, it has the same result, though nothing that can be made is left to make."""
    painter, journal = Painter(batch=1, bad_seeds=range(1, 9)), Journal()
    first, second = (select(BestOf(9), scenes(1), editor=painter, reward=graded(), journal=journal) for _ in range(2))

    assert first[0].winner is not None
    assert without_time(second.to_json()) == without_time(first.to_json())


def test_an_editor_that_makes_too_few_pictures_has_failed() -> None:
    class Lazy(Painter):
        def edit(self, *given: Any, **named: Any) -> Any:
            return super().edit(*given, **named)[:0]

    with pytest.raises(RunStopped, match="asked for 1 pictures and made 0"):
        select(BestOf(4), scenes(1), editor=Lazy(), reward=graded())


# -- judges that fail -------------------------------------------------------------------------------------------------


def test_a_judge_that_breaks_down_stops_the_run_and_nothing_is_lost() -> None:
    journal, painter = Journal(), Painter(batch=4)
    left = [8]

    def rule(query: Any) -> Any:
        left[0] -= 1
        return Measured(read(query.image)) if left[0] >= 0 else Failure("gone home")

    with pytest.raises(RunStopped, match="gone home") as stopped:
        select(BestOf(20), scenes(2), editor=painter, reward=graded(judge(rule=rule)), journal=journal)
    assert stopped.value.journal is journal
    made = sum(painter.calls)
    assert made < 40  # nobody would have scored the others

    again, healthy = Painter(batch=4), judge()
    found = select(BestOf(20), scenes(2), editor=again, reward=graded(healthy), journal=journal)

    assert sum(again.calls) == 40 - made
    assert sum(healthy.seen.values()) == 40 - 8
    assert found.known.evaluations == 8 * made
    assert found.known.judge_calls == 8
    whole = select(BestOf(20), scenes(2), editor=Painter(), reward=graded())
    assert without_time(found.to_json()) == without_time(whole.to_json())


def test_what_is_known_is_neither_made_nor_asked_again() -> None:
    journal, painter, expert = Journal(), Painter(), judge()
    first, second = (
        select(BestOf(5), scenes(2), editor=painter, reward=graded(expert, "following"), journal=journal)
        for _ in range(2)
    )

    assert sum(painter.calls) == 10
    assert sum(expert.seen.values()) == 10
    assert second.known == second.spent == first.spent
    assert without_time(second.to_json()) == without_time(first.to_json())


def test_another_reward_is_asked_about_what_was_made() -> None:
    journal, painter, expert = Journal(), Painter(), judge()
    select(BestOf(5), scenes(1), editor=painter, reward=graded(), journal=journal)
    (found,) = select(BestOf(5), scenes(1), editor=painter, reward=graded(expert, "second"), journal=journal)

    assert sum(painter.calls) == 5
    assert sum(expert.seen.values()) == 5
    assert found.value == max(read(one.picture, "second") for one in found.candidates if one.picture)


# -- in stages --------------------------------------------------------------------------------------------------------


def staged_to_the_end(run: Run, samples: Sequence[EditSample], stops: Sequence[int]) -> list[Staged]:
    going = [Staged(run.want(sample, number)) for sample in samples for number in range(3)]
    for until in [*stops, run.steps]:
        going = run.stage(going, until)
    return going


@settings(max_examples=20)  # each is a run or two
@given(stops=st.sets(st.integers(1, 7), max_size=3), batch=st.integers(1, 7))
def test_stages_lead_to_the_same_pictures(stops: set[int], batch: int) -> None:
    painter, samples = Painter(batch=batch), scenes(2)
    staged = Run(painter, graded())
    going = staged_to_the_end(staged, samples, sorted(stops))
    found = [staged.candidate(one) for one in going]

    whole = Run(Painter(), graded())
    expected = whole.candidates([whole.want(sample, number) for sample in samples for number in range(3)])

    assert [(one.picture, one.value, one.fate) for one in found] == [(o.picture, o.value, o.fate) for o in expected]
    assert painter.evaluated == staged.spent.evaluations == sum(one.cost.evaluations for one in found) == 6 * 8
    assert [[look.step for look in one.looks] for one in found] == [[*sorted(stops), 8]] * 6


def test_a_lost_draft_is_made_again_and_not_charged_again() -> None:
    journal, samples = Journal(), scenes(1)
    first = Run(Painter(), graded(), journal=journal)
    stopped = first.stage([Staged(first.want(samples[0], 0))], 4)
    journal._drafts.clear()
    painter = Painter()

    second = Run(painter, graded(), journal=journal)
    (found,) = second.stage(second.stage([Staged(second.want(samples[0], 0))], 4), 8)

    assert stopped[0].looks[0].picture == found.looks[0].picture
    assert painter.evaluated == 8
    assert second.spent.evaluations == found.cost.evaluations == 8


def test_a_picture_costs_the_same_whoever_made_it() -> None:
    """By one selector in stages, by the other in one go: what each spends does not depend on who came first."""
    journal, samples, painter = Journal(), scenes(2), Painter()
    staged = Run(painter, graded(), journal=journal)
    staged_to_the_end(staged, samples, [3])
    whole = select(BestOf(4), samples, editor=painter, reward=graded(), journal=journal)
    again = Run(painter, graded(), journal=journal)
    staged_to_the_end(again, samples, [3])

    assert whole.spent.evaluations == 4 * 2 * 8
    assert whole.known.evaluations == 3 * 2 * 8
    assert again.spent.evaluations == staged.spent.evaluations == 3 * 2 * 8
    assert painter.evaluated == (3 + 1) * 2 * 8


def test_neighbours_and_ways_back_are_made_and_paid_by_where_they_start() -> None:
    painter, (sample,) = Painter(), scenes(1)
    run = Run(painter, graded())
    run.stage([Staged(run.want(sample, 0))], 6)
    parent = run.noise(0)
    near, back = parent.near(71, 0.1), parent.again(72, seen=6, back=5)

    plain, beside, behind = run.candidates(
        [replace(run.want(sample, number), noise=noise) for number, noise in enumerate((parent, near, back))]
    )

    assert [one.cost.evaluations for one in (plain, beside, behind)] == [8, 8, 3]
    assert painter.evaluated == 6 + 8 + 8 + 3
    assert None not in (plain.value, beside.value, behind.value)
    assert abs((plain.value or 0) - (beside.value or 0)) < 0.2


@pytest.mark.parametrize("noise", [Noise(0), Noise(0).near(1, 0.5)])
def test_an_editor_that_cannot_stop_half_way_says_so(noise: Noise) -> None:
    painter, (sample,) = Painter(), scenes(1)
    run = Run(Plain(painter), graded())
    want = replace(run.want(sample, 0), noise=noise)
    with pytest.raises(TypeError, match="cannot stop half-way"):
        run.stage([Staged(want)], 4) if noise.parent is None else run.candidates([want])
    assert not painter.calls


def test_a_whole_picture_needs_no_steps() -> None:
    painter = Painter()
    assert select(BestOf(3), scenes(1), editor=Plain(painter), reward=graded())[0].winner is not None


def test_a_budget_that_ends_between_stages_leaves_candidates_stopped() -> None:
    run = Run(Painter(batch=2), graded(), budget=Budget(evaluations=20))
    going = staged_to_the_end(run, scenes(1), [4])
    found = [run.candidate(one) for one in going]

    assert run.spent.evaluations == 20
    assert [one.fate for one in found] == ["made", "made", "stopped"]
    assert found[2].value is None
    assert "stopped after 4 of 8" in found[2].score.reason


def test_boxes_of_what_is_to_be_edited_may_be_pixel_corners() -> None:
    source = scenes(1)[0].source
    sample = unedited("make it blue", source, boxes={"cup": [(0, 0, 4, 2)], "plate": [Box(0.5, 0.5, 1.0, 1.0)]})
    assert sample.boxes["cup"] == (Box(0.25, 0.125, 0.5, 0.25, label="cup"),)
    assert sample.boxes["plate"] == (Box(0.5, 0.5, 1.0, 1.0, label="plate"),)
    assert not unedited("make it blue", source).boxes
