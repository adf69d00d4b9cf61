"""A reward is a metric bound to experts: it scores batches, streams and single edits."""

import itertools
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import editcritic.reward.reward as reward_module
from editcritic.reward import (
    AnswerLog,
    Box,
    Engine,
    ImageError,
    Reward,
    Score,
    SpecError,
    Task,
    TooManyFailures,
    retry,
    score,
)
from editcritic.reward.metrics import WeightedMean
from editcritic.reward.queries import ExpertDown, Failure

from .fakes import Fake, Rated, Says, Seeded, alone, known, picture, sample


def samples(count, start=0):
    return [sample(f"s{number}", edited=picture(number)) for number in range(start, start + count)]


def expected(batch):
    return [alone(Rated()(edit), known).with_signature("rated@1") for edit in batch]


def test_a_batch_is_scored_in_its_order_and_carries_ids_and_costs():
    expert = Fake(jitter_s=0.001, batch=3, concurrency=3)
    batch = samples(20) + samples(5)
    scores = Reward(Rated(), {"preference": expert}, max_in_flight=4)(batch)
    assert list(scores) == expected(batch)
    assert scores.ids == tuple(edit.id for edit in batch)
    assert (scores.stats["programs"], scores.stats["queries"], scores.stats["unique"]) == (25, 25, 20)
    assert scores.stats["experts"]["fake"]["queries"] == 20
    assert scores.stats["seconds"] >= 0


def test_a_stream_takes_samples_as_there_is_room_and_gives_scores_as_they_come():
    consumed = []

    def endless():
        for number in itertools.count():
            consumed.append(number)
            yield sample(str(number), edited=picture(number % 7))

    stream = Reward(Rated(), {"preference": Fake()}, max_in_flight=4).stream(endless())
    assert [next(stream) for _ in range(50)] == expected([sample("", edited=picture(n % 7)) for n in range(50)])
    assert len(consumed) <= 50 + 16 * 4


def test_nothing_is_asked_of_a_batch_that_lacks_what_the_metric_requires():
    expert = Fake()
    metric = Says(number=1, name="edival-if", requires=("task", "boxes"))
    batch = [*samples(1), sample("bare", task=Task("subject_remove", object="cup"))]
    with pytest.raises(ValueError, match="edival-if needs task, boxes, and sample 's0' has none"):
        Reward(metric, {"preference": expert})(batch)
    with pytest.raises(ValueError, match="edival-if needs boxes, and sample 'bare' has none"):
        Reward(metric, {"preference": expert})(batch[1:])
    assert expert.calls == []
    full = sample(task=batch[1].task, boxes={"cup": [Box(0.5, 0.5, 0.1, 0.1)]})
    assert Reward(metric, {"preference": expert})([full]).count("scored") == 1


def test_threads_and_closed_engines(tmp_path):
    reward, expert = Reward(Rated(), {"preference": Fake(jitter_s=0.002)}), None
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: list(reward(samples(10))), range(8)))
    expert = reward.experts["preference"]
    assert isinstance(expert, Fake)
    assert results == [expected(samples(10))] * 8
    assert set(expert.seen.values()) == {1}
    reward = Reward(Rated(), {"preference": Fake()})
    reward.engine.close()
    assert list(reward(samples(2))) == expected(samples(2))
    first, second = Fake(), Fake()
    with AnswerLog(tmp_path / "log") as log:
        scores = Reward(Rated(), {"preference": first}, log=log)(samples(5))
        logged_scores = Reward(Rated(), {"preference": second}, log=log)(samples(5))
    assert list(scores) == list(logged_scores)
    assert (len(first.seen), len(second.seen)) == (5, 0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_failure_rate": 1.5}, r"max_failure_rate is a fraction in \[0, 1\], got 1\.5"),
        ({"max_failure_rate": -0.1}, "max_failure_rate is a fraction"),
        ({"max_failure_rate": float("nan")}, "max_failure_rate is a fraction"),
        ({"on_failures": "ignore"}, "on_failures is 'raise', 'none' or 'wait', got 'ignore'"),
        ({"max_in_flight": 0}, "window must be at least 1"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        _ = Reward(Rated(), {"preference": Fake()}, **options).engine


def test_what_is_no_metric_or_no_expert_or_bound_to_no_role_is_refused():
    with pytest.raises(SpecError, match="is not a metric: it has no card"):
        Reward.of("tests.reward.fakes:Seeded")
    with pytest.raises(SpecError, match="is not an Expert"):
        Reward.of("tests.reward.fakes:Rated", {"preference": "tests.reward.fakes:Rated"})
    metric = WeightedMean({"a": Rated(), "b": Rated(role="judge.style"), "c": Rated(role="reader")})
    with pytest.raises(
        ValueError, match="weighted-mean needs experts for preference, reader, but experts are bound to judge only"
    ):
        Reward(metric, {"judge": Fake()})
    with pytest.raises(ValueError, match="bound to no role only"):
        Reward(Rated(), {})


def test_options_and_experts_may_stand_in_a_table():
    options: Any = {"max_in_flight": 3, "max_failure_rate": 0.25, "on_failures": "wait", "outage_timeout_s": 5.0}
    experts = {"preference": "tests.reward.fakes:Seeded?seed=7"}
    reward = Reward.of("tests.reward.fakes:Rated", experts, prompt="a cup", **options)
    assert (reward.metric, reward.__name__, reward.card.name) == (Rated("a cup"), "rated", "rated")
    assert reward.experts["preference"].id == "seeded 7"
    again = pickle.loads(pickle.dumps(reward))
    for one in (reward, again):
        assert (one.max_failure_rate, one.on_failures, one.outage_timeout_s) == (0.25, "wait", 5.0)
        assert one.engine.window == 3
    assert (again.metric, again.spec) == (reward.metric, reward.spec)
    assert list(again(samples(3))) == list(reward(samples(3)))
    table = {
        "reward": {"use": "tests.reward.fakes:Rated", "prompt": "x"},
        "experts": {"preference": {"use": "tests.reward.fakes:Seeded", "seed": 7}},
    }
    reward = Reward.of(table)
    assert (reward.metric, reward.experts["preference"].id) == (Rated("x"), "seeded 7")
    assert Reward.of(table, {"preference": Seeded(8)}).experts["preference"].id == "seeded 8"
    assert Reward.of(reward.spec).spec == reward.spec


class Outage(Fake):
    """Is down for some queries, for a number of calls or for ever."""

    def __init__(self, down, *, calls=None, **options):
        super().__init__(self.answer, batch=1, **options)
        self.down = {edit.edited.digest for edit in down}
        self.left = calls
        self.guard = threading.Lock()

    def answer(self, query):
        with self.guard:
            if query.image.digest in self.down and self.left != 0:
                if self.left is not None:
                    self.left -= 1
                raise ExpertDown("the server restarts")
        return known(query)


def failing(down):
    """Fails on some queries, without being down."""
    digests = {edit.edited.digest for edit in down}

    def rule(query):
        if query.image.digest in digests:
            raise ValueError("cannot read it")
        return known(query)

    return Fake(rule)


class Clock:
    """Sleeps take no time, and are what time passes by."""

    def __init__(self, monkeypatch):
        self.now, self.slept = 0.0, []
        shared = {name: getattr(time, name) for name in ("perf_counter", "time", "strftime", "localtime")}
        clock = SimpleNamespace(sleep=self.sleep, monotonic=lambda: self.now, **shared)
        self.shared = clock
        monkeypatch.setattr(reward_module, "time", clock)
        monkeypatch.setattr(retry, "time", clock)

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def pauses(monkeypatch):
    """Durations of the reward's sleeps, which are skipped."""
    return Clock(monkeypatch).slept


def are_growing(pauses, longest=15.0):
    """Whether each is half to the whole of what the policy says, but for the last, which ends the outage."""
    wanted = [min(2.0**number, longest) for number in range(len(pauses) - 1)]
    return all(most / 2 <= pause <= most for pause, most in zip(pauses[:-1], wanted, strict=True))


def test_too_many_failures_stop_a_batch_and_a_stream():
    batch = samples(40)
    reward = Reward(Rated(), {"preference": failing(batch[20:])}, max_failure_rate=0.25)
    with pytest.raises(
        TooManyFailures, match=r"of the last scores failed \(allowed: 25%\).*ValueError: cannot"
    ) as caught:
        reward(batch)
    computed = caught.value.scores
    assert list(computed[:20]) == expected(batch[:20])
    assert [score.status for score in computed] == ["scored"] * 20 + ["failed"] * 7, "7 of 27 are more than a quarter"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.scores) == (str(caught.value), computed)
    batch = samples(40)
    yielded: list[Score] = []
    with pytest.raises(TooManyFailures) as caught:
        yielded.extend(Reward(Rated(), {"preference": failing(batch[20:])}, max_failure_rate=0.25).stream(batch))
    assert yielded[:20] == expected(batch[:20])
    assert len(yielded) == 26
    assert [score.status for score in caught.value.scores] == ["failed"], "without the scores already yielded"


def test_after_stopping_no_expert_is_asked_behind_the_back_of_who_offloads_it():
    batch, released = samples(40), threading.Event()
    broken = {edit.edited.digest for edit in batch[:16]}

    def rule(query):
        if query.image.digest in broken:
            return Failure("cannot")
        assert released.wait(timeout=30)
        return known(query)

    class Movable(Fake):
        def offload(self):
            self.asked_before = len(self.calls)

    expert = Movable(rule, batch=1)
    reward = Reward(Rated(), {"preference": expert}, max_failure_rate=0.25)
    with pytest.raises(TooManyFailures):
        reward(batch)
    threading.Timer(0.2, released.set).start()
    reward.offload()
    reward(samples(1, start=900))  # is queued behind any remaining queries
    assert len(expert.calls) == expert.asked_before + 1 < 40


def test_failures_count_over_the_last_64_scores_and_afresh_after_stopping():
    reward = Reward(Rated(), {"preference": failing(samples(100, 500))}, max_failure_rate=0.5)
    for start in (0, 100, 200):
        reward(samples(64, start))
    assert reward(samples(32, 500)).count("failed") == 32, "half of the last 64: no more than is allowed"
    with pytest.raises(TooManyFailures):
        reward(samples(1, 533))
    reward = Reward(Rated(), {"preference": failing(samples(50))}, max_failure_rate=0.1)
    with pytest.raises(TooManyFailures):
        reward(samples(50))
    assert reward(samples(15)).count("failed") == 15


def test_abstentions_are_no_failures_and_none_lets_failures_pass(pauses):
    assert Reward(Says(Score.abstained("dark")), {}, max_failure_rate=0.0)(samples(50)).count("abstained") == 50
    down = {"preference": Outage(samples(50))}
    assert Reward(Rated(), down, max_failure_rate=0.0, on_failures="none")(samples(50)).values == [None] * 50
    assert pauses == []


def test_wait_asks_again_until_it_is_answered(pauses):
    batch = samples(60)
    expert = Outage(batch, calls=20)
    reward = Reward(Rated(), {"preference": expert}, max_failure_rate=0.1, on_failures="wait", max_in_flight=8)
    scores = reward(batch)
    failed = [index for index, score in enumerate(scores) if score.status == "failed"]
    assert failed == [], "what failed before the outage was detected is asked again when it is over"
    assert list(scores) == expected(batch)
    assert pauses
    assert are_growing(pauses)


def test_what_was_waited_for_does_not_count_as_failed(monkeypatch):
    batch = samples(33)
    unwell, bad = {edit.edited.digest for edit in batch[:16]}, batch[31].edited.digest
    clock = Clock(monkeypatch)

    def sleep(seconds):  # the outage ends
        Clock.sleep(clock, seconds)
        unwell.clear()

    def rule(query):
        if query.image.digest == bad or query.image.digest in unwell:
            raise ValueError("cannot read it")
        return known(query)

    monkeypatch.setattr(clock.shared, "sleep", sleep)
    scores = Reward(Rated(), {"preference": Fake(rule)}, on_failures="wait", outage_timeout_s=10)(batch)
    # 15 before the outage was detected, and the bad sample: 16 of 32 are not more than half.
    assert [index for index, score in enumerate(scores) if score.status == "failed"] == [31]
    assert len(clock.slept) == 1


def test_few_failures_are_waited_for_only_where_the_circuit_is_open(pauses):
    batch = samples(100)
    expert = failing(batch[50:55])
    scores = Reward(Rated(), {"preference": expert}, on_failures="wait")(batch)
    assert [index for index, score in enumerate(scores) if score.status == "failed"] == list(range(50, 55))
    assert pauses == []
    batch = samples(40)

    def rule(query):
        if len(pauses) < 2 and query.image.digest in {edit.edited.digest for edit in batch[30:]}:
            raise ExpertDown("the server is gone")
        return known(query)

    reward = Reward(Rated(), {"preference": Fake(rule)}, on_failures="wait", max_in_flight=1)
    assert list(reward(batch)) == expected(batch)
    assert len(pauses) == 2


def test_patience_ends_with_what_was_computed_or_all_is_asked_again(pauses):
    batch = samples(40)
    reward = Reward(
        Rated(), {"preference": Outage(batch[20:])}, max_failure_rate=0.0, on_failures="wait", outage_timeout_s=100.0
    )
    with pytest.raises(TooManyFailures, match=r"still failing after 100 s: .*the server restarts \(fake\)") as caught:
        reward(batch)
    assert list(caught.value.scores[:20]) == expected(batch[:20])
    assert [score.status for score in caught.value.scores[20:]] == ["failed"] * 20
    assert sum(pauses) == pytest.approx(100)
    assert are_growing(pauses)
    batch = samples(200)
    with Engine(window=256, cooldown_s=3600) as engine:
        expert = Outage(batch, calls=3)
        reward = Reward(Rated(), {"preference": expert}, engine=engine, on_failures="wait")
        scores = reward(batch)
    assert list(scores) == expected(batch)


@pytest.mark.parametrize("count", [1, 3, 40])
def test_an_outage_is_one_period_for_a_call_of_any_size_and_its_beginning_minutes_and_end_are_logged(
    pauses, caplog, count
):
    batch = samples(count)
    expert = Outage(batch)
    reward = Reward(Rated(), {"preference": expert}, on_failures="wait", outage_timeout_s=150.0)
    with pytest.raises(TooManyFailures, match="still failing after 150 s") as caught:
        reward(batch)
    assert [score.cause for score in caught.value.scores] == ["infrastructure"] * count
    assert sum(pauses) == pytest.approx(150)
    messages = [record.getMessage() for record in caplog.records if record.name == "editcritic.outages"]
    assert "outage for 0 s" in messages[0]
    assert len(messages) == 3, "when it begins, and each minute"
    assert "the server restarts" in messages[0]
    assert "waiting until" in messages[0]
    expert.down = set()
    assert list(reward(batch)) == expected(batch)
    assert caplog.records[-1].getMessage().endswith("the outage is over after 150 s")
    assert sum(pauses) == pytest.approx(150)


def test_one_edit_is_scored_in_a_line_or_says_why_not(tmp_path):
    picture(1).pil().save(tmp_path / "before.png")
    before, after = tmp_path / "before.png", picture(2, 4, 8).pixels
    assert score(before, after, "crop it", reward="guard-same-aspect").value == 0.0
    assert score(before, picture(2), "crop it", reward={"use": "guard-same-aspect"}).value == 1.0
    assert score(before, picture(2), "crop it", reward=Reward(Rated(), {"preference": Fake()})).metric == "rated@1"
    with pytest.raises(ImageError, match=r"cannot read image .*nowhere\.png"):
        score(tmp_path / "nowhere.png", picture(), "x")
    with pytest.raises(SpecError, match="did you mean guard-not-a-copy"):
        score(picture(), picture(), "x", reward="guard-not-a-cpy")
    with pytest.raises(ValueError, match="holds a NaN or an infinity"):
        score(picture(), picture(), "x", reward="guard-not-a-copy", boxes={"cup": [(0, 0, float("nan"), 8)]})


def test_one_edit_may_have_boxes_and_other_fields():
    scored = []

    class Looks(Says):
        def __call__(self, sample):
            scored.append(sample)
            return (yield from super().__call__(sample))

    task = Task("subject_remove", object="cup")
    reward = Reward(Looks(Score.of(1)), {})
    score(picture(1), picture(2), "remove the cup", reward=reward, boxes={"cup": [(0, 0, 4, 8)]}, task=task, id="x")
    (edit,) = scored
    assert (edit.id, edit.task, edit.instruction) == ("x", task, "remove the cup")
    assert edit.boxes == {"cup": (Box(0.25, 0.5, 0.5, 1.0, label="cup"),)}


def test_a_name_is_built_once(monkeypatch):
    calls = []
    of = Reward.of

    def counted(*arguments, **options):
        calls.append(arguments)
        return of(*arguments, **options)

    monkeypatch.setattr(Reward, "of", counted)
    reward_module._cached_reward.cache_clear()
    for number in range(3):
        score(picture(), picture(number), "x", reward="guard-same-aspect?tolerance=0.07")
    assert len(calls) == 1
