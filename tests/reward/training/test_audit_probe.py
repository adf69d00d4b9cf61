"""What hacks would pay on a policy's own edits: seen before the policy finds them, and quiet where none pays."""

import json
import logging
import pickle
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from editcritic.reward import EditSample, Image, Reward, Score
from editcritic.reward.audit.trials import TrialMaker
from editcritic.reward.training.audit_probe import AuditProbe, HackGains, HackTracker
from editcritic.reward.training.image_statistics import image_statistics, mean_absolute_difference
from editcritic.reward.training.reward_hacking_monitor import RewardHackingMonitor
from editcritic.reward.training.step_monitor import MonitoredReward, StepMonitor

from ..fakes import Fake, Rated, known, sample
from .policies import HACKS, Edit, Policy, photos

Part = Callable[[EditSample, Edit], float]
"""A share of the reward, of a sample that may be a variant of the policy's edit."""


def following(edit: EditSample, made: Edit) -> float:
    """What a judge sees of the request: as good as the policy's edit is, less by any damage to it, none of a copy."""
    damage = mean_absolute_difference(made.sample.edited, edit.edited) if same_size(edit, made) else 1.0
    return float(np.exp(-damage / 0.05) / (1 + np.exp(-made.quality)))


def saturation(edit: EditSample, made: Edit) -> float:
    return min(1.0, image_statistics(edit.edited)["saturation"])


def preservation(edit: EditSample, made: Edit) -> float:
    """Likeness to the source."""
    return float(np.exp(-mean_absolute_difference(edit.source, edit.edited) / 0.1)) if same_size(edit, made) else 0.0


def same_size(edit: EditSample, made: Edit) -> bool:
    return edit.edited.size == made.sample.edited.size


@dataclass
class Paid:
    """A reward of a policy's edits and of variants of them, from parts with weights, with a judge's noise."""

    parts: dict[Part, float]
    seed: int = 0
    noise: float = 0.02
    made: dict[str, Edit] = field(default_factory=dict)
    calls: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def __call__(self, samples: Sequence[EditSample]) -> list[float]:
        self.calls.append(len(samples))
        return [self._value(one, self.made[one.id.partition("/")[0]]) for one in samples]

    def _value(self, edit: EditSample, made: Edit) -> float:
        value = sum(weight * part(edit, made) for part, weight in self.parts.items())
        return value + self.noise * float(self.random.standard_normal())

    def train(self, policy: Policy, monitor: StepMonitor, steps: int) -> None:
        for number in range(steps):
            edits = policy.step(number)
            self.made = {edit.sample.id: edit for edit in edits}
            samples = [edit.sample for edit in edits]
            monitor.add(samples, [Score.of(value) for value in self(samples)])


def gains_of(monitor: StepMonitor, name: str) -> list[tuple[int, float]]:
    return [(step, numbers[name]) for step, numbers in monitor.history if name in numbers]


def alarms_of(monitor: StepMonitor) -> dict[str, int]:
    """The step of the first alarm of each name."""
    return {alarm.name: alarm.step for alarm in reversed(monitor.alarms)}


def test_a_hack_that_pays_is_known_before_the_policy_finds_it(caplog):
    reward = Paid({following: 0.3, saturation: 1.5}, noise=0.01)
    monitor = StepMonitor(64, probe=AuditProbe(reward, every=2), name="mine")
    with caplog.at_level(logging.WARNING, "editcritic.monitor"):
        reward.train(Policy(1, HACKS["saturates"][1], start=20), monitor, 30)
    first = dict(monitor.history[0][1])
    assert first["hack/over-saturated"] > 0.05
    assert first["hack/best"] >= first["hack/over-saturated"]
    assert max(first[f"hack/{name}"] for name in ("unchanged-source", "blank", "noisy")) < 0
    raised = alarms_of(monitor)
    assert raised["hack/over-saturated"] == 8  # the fifth probe
    assert raised["saturation"] >= 24  # once the policy does it
    assert {name for name in raised if name.startswith("hack/")} == {"hack/over-saturated"}
    line = next(text for text in caplog.messages if "hack/over-saturated" in text)
    assert line.startswith("reward hacking? hack/over-saturated of mine, since about step 0 of 64 edits: the hack ")
    assert "of the reward's scale over the policy's best edits, and did gain in each of the last 5 probes" in line
    assert "What to do: run `editcritic audit` on edits of the last steps" in line


def test_a_hack_begins_to_pay_as_the_edits_get_worse():
    reward = Paid({following: 0.6, preservation: 0.4}, noise=0.01)
    policy = Policy(2, rise=-0.25, start=30)
    monitor = StepMonitor(64, probe=AuditProbe(reward, every=2))
    reward.train(policy, monitor, 70)
    gains = gains_of(monitor, "hack/unchanged-source")
    assert max(gain for step, gain in gains if step < 30) < 0 < min(gain for step, gain in gains if step > 50)
    alarms = [alarm for alarm in monitor.alarms if alarm.name == "hack/unchanged-source"]
    assert {alarm.step > 30 for alarm in alarms} == {True}
    assert any("would gain" in alarm.message for alarm in alarms)
    assert any("gains well above that" in alarm.message for alarm in alarms)


@pytest.mark.parametrize("seed", range(3))
def test_a_policy_without_a_hack_raises_no_alarm(seed):
    reward = Paid({following: 0.7, preservation: 0.3}, seed, noise=0.1)
    monitor = StepMonitor(64, probe=AuditProbe(reward, every=1))
    reward.train(Policy(100 + seed, rise=0.02, groups=8, group_size=8), monitor, 60)
    assert len(gains_of(monitor, "hack/best")) == 60
    assert [alarm.message for alarm in monitor.alarms if alarm.name.startswith("hack/")] == []


def test_noise_alone_is_no_hack():
    """As in 1,000 steps with a probe each ten; the gains of a reward that sees hacks, and of one that sees none."""
    alarms = dict.fromkeys((-0.2, 0.0), 0)
    for mean in alarms:
        for seed in range(1000, 1040):
            random_gains = np.random.default_rng(seed).normal(mean, 0.2, (100, 10, 4))
            tracker = HackTracker(5, 3.0)
            for number, probe in enumerate(random_gains):
                gains = HackGains({str(family): row.tolist() for family, row in enumerate(probe)})
                alarms[mean] += len(tracker.observe(10 * number, gains)[1])
    assert alarms[-0.2] == 0
    assert alarms[0.0] <= 10  # in 40 runs of 10 families


def step_of(groups: int = 6, size: int = 4) -> tuple[list[EditSample], list[Score]]:
    """Photographs to which a box is added, in groups; the last of each group has the highest score."""
    edits = []
    for group in range(groups):
        photo = Image.of(np.ascontiguousarray(photos()[group % len(photos())][40 * group :][:96, 100:196]))
        for row in range(size):
            edited = photo.painted((10 + 5 * row, 20, 50, 60))
            edits.append(sample(f"{group}-{row}", instruction="add a box", sources=(photo,), edited=edited))
    return edits, [Score.of(0.1 + 0.1 * (row % size)) for row in range(groups * size)]


def brightness(samples: Sequence[EditSample]) -> list[float]:
    return [float(one.edited.pixels.mean()) / 255 for one in samples]


class Constant:
    """A callable that notes what it scores."""

    def __init__(self, value: Any = 0.25) -> None:
        self.value = value
        self.calls: list[list[str]] = []

    def __call__(self, samples: Sequence[EditSample]) -> list[Any]:
        self.calls.append([one.id for one in samples])
        return [self.value] * len(samples)


def test_a_probe_is_one_call_of_few_scores_every_few_steps():
    reward = Constant()
    probe = AuditProbe(reward, every=3, samples=2, families=["blurred", "noisy"], severities=[2, 1])
    edits, scores = step_of()
    probed = [step for step in range(7) if probe(step, edits, scores) is not None]
    assert probed == [0, 3, 6]
    assert reward.calls[0] == reward.calls[2]
    assert sorted(reward.calls[0]) == sorted(
        f"{group}-3/{family}/{severity}" for group in (0, 1) for family in ("blurred", "noisy") for severity in (1, 2)
    )
    edits, scores = step_of()
    gains = AuditProbe(Constant(0.65), samples=3, families=["blurred"])(0, edits, scores)
    assert gains is not None
    scale = float(np.subtract(*np.quantile([*(score.value for score in scores), *[0.65] * 3], (0.95, 0.05))))
    assert gains.by_family["blurred"] == pytest.approx([(0.65 - 0.4) / scale] * 3)
    assert gains.numbers == {"hack/blurred": pytest.approx(0.25 / scale), "hack/best": pytest.approx(0.25 / scale)}
    monitor = StepMonitor(24, probe=AuditProbe(Constant(0.3), every=3))
    seen = []
    for _ in range(5):
        monitor.add(*step_of())
        seen.append(monitor.latest["hack/blurred"])
    assert len(set(seen[:3])) == 1
    assert [step for step, numbers in monitor.history if "hack/blurred" in numbers] == [0, 3]
    assert not any(name.endswith("/z") for _, numbers in monitor.history for name in numbers)


def test_a_reward_with_a_range_has_its_scale_and_its_lowest_scores_are_compared_with_nothing():
    reward = Reward(Rated(), {"preference": Fake(known)}, on_failures="none")
    edits, _ = step_of()
    gains = AuditProbe(reward, families=["blurred", "noisy"], samples=4)(0, edits, list(reward(edits)))
    assert gains is not None
    best = [max(pair) for pair in zip(gains.by_family["blurred"], gains.by_family["noisy"], strict=True)]
    assert list(gains.best) == best
    assert gains.numbers["hack/best"] == pytest.approx(np.mean(best))
    assert all(abs(gain) <= 1 for values in gains.by_family.values() for gain in values)
    probe, edits = AuditProbe(reward, families=["blurred"]), step_of(groups=3, size=1)[0]
    one = probe(0, edits, [Score.abstained("who knows"), Score.of(0.0), Score.of(0.5)])
    assert one is not None
    assert len(one.by_family["blurred"]) == 1
    assert probe(0, edits, [None, None, 0.0]) is None is probe(0, [], [])
    assert probe.failures == 0


def test_a_variant_counts_where_it_would_count_in_training():
    edits, scores = step_of(groups=2, size=1)
    answers = {
        "blurred": Score.failed("the reply has no grade"),  # the edit may be the reason
        "noisy": Score.failed("down", cause="infrastructure"),
        "collage": None,
        "blank": Score.of(0.05),
    }

    def reward(samples: Sequence[EditSample]) -> list[Score | None]:
        return [answers[one.id.split("/")[1]] for one in samples]

    gains = AuditProbe(reward, families=list(answers))(0, edits, scores)
    assert gains is not None
    assert set(gains.by_family) == {"blurred", "blank"}
    assert gains.by_family["blurred"] == gains.by_family["blank"]  # 0.05 is the lowest score seen


def test_a_reward_that_fails_ends_nothing_and_is_asked_after_growing_pauses(caplog):
    asked: list[int] = []
    now = {"step": 0}

    def broken(samples: Sequence[EditSample]) -> list[Score]:
        asked.append(now["step"])
        if now["step"] >= 20:
            return [Score.of(0.2)] * len(samples)
        if len(asked) == 2:
            return [Score.failed("nobody is there", cause="infrastructure")] * len(samples)
        if len(asked) == 3:
            return []
        raise ConnectionError("lost")

    probe = AuditProbe(broken, every=1)
    edits, scores = step_of()
    with caplog.at_level(logging.WARNING, "editcritic.monitor"):
        for step in range(40):
            now["step"] = step
            assert (probe(step, edits, scores) is None) == (step < 36)
    assert asked == [0, 2, 5, 10, 19, 36, 37, 38, 39]
    assert probe.failures == 5
    assert "the audit probe of step 0 failed, and is left out for 1 probes: ConnectionError: lost" in caplog.text
    assert "no variant has a score: nobody is there" in caplog.text
    assert "0 scores for 40 variants" in caplog.text


def test_a_family_that_breaks_is_left_out_and_told(monkeypatch, caplog):
    maker = TrialMaker.variant

    def variant(self: Any, number: int, family: Any, severity: int) -> Any:
        if family.name == "blurred":
            raise ZeroDivisionError("of pixels")
        return maker(self, number, family, severity)

    monkeypatch.setattr(TrialMaker, "variant", variant)
    gains = AuditProbe(Constant(), families=["blurred", "noisy"])(0, *step_of())
    assert gains is not None
    assert set(gains.by_family) == {"noisy"}
    assert caplog.text.count("an audit probe could not make blurred variants: ZeroDivisionError: of pixels") == 1


def test_options_are_read_from_a_string_and_refused_where_they_mean_nothing():
    probe = AuditProbe.of(Constant(), "every=5&samples=2&families=blurred,noisy&severities=0,2&seed=7")
    assert (probe.every, probe.samples, probe.severities, probe.seed) == (5, 2, (0, 2), 7)
    assert [family.name for family in probe.families] == ["blurred", "noisy"]
    assert AuditProbe.of(Constant(), "every=10").families == AuditProbe(Constant()).families
    for text, words in (
        ("10", "as in every=10&samples=4, got '10'"),
        ("each=10", "options every, families, samples, severities, seed"),
        ("every=often", "is no number"),
        ("severities=", "is no number"),
        ("every=0", "every >= 1, samples >= 1 and severities out of 0, 1 and 2, got 0, 4"),
        ("samples=0", "got 10, 0"),
        ("severities=3", r"and \[3\]"),
        ("families=", "there is no family ''"),
        ("families=reencoded", "must score lower, got reencoded"),
    ):
        with pytest.raises(ValueError, match=words):
            AuditProbe.of(Constant(), text)
    for options, words in (({"severities": ()}, r"and \[\]"), ({"families": ()}, "an audit probe needs families")):
        with pytest.raises(ValueError, match=words):
            AuditProbe(Constant(), **options)  # type: ignore[arg-type]


def test_probes_leave_monitored_rewards_and_generators_alone():
    reward = Reward(Rated(), {"preference": Fake(known)}, on_failures="none")
    edits, _ = step_of()
    for probed in (reward, MonitoredReward(reward, step_samples=24)):
        monitored = MonitoredReward(reward, step_samples=24, probe=AuditProbe(probed, every=1))
        assert monitored(edits).scores == reward(edits).scores
        assert (monitored.monitor.steps, len(monitored.monitor.history)) == (1, 1)
        assert "hack/best" in monitored.latest
        if isinstance(probed, MonitoredReward):
            assert probed.monitor.steps == 0
            probed.monitor.add(edits[:23], [Score.of(0.5)] * 23)
            assert probed.monitor.steps == 0  # none of the variants waits in it
    monitor = StepMonitor(24, probe=AuditProbe(brightness, every=1))
    again = pickle.loads(pickle.dumps(monitor))
    for one in (monitor, again):
        one.add(edits, [Score.of(value) for value in brightness(edits)])
    assert again.latest == monitor.latest
    assert "hack/best" in again.latest
    reward = Reward(Rated(), {"preference": Fake(known)}, on_failures="none")
    probe = AuditProbe(reward, every=1)
    edits, scores = step_of()

    def states() -> list[Any]:
        numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002  (what a trainer may draw from)
        return [random.getstate(), str(numpy_state), torch.random.get_rng_state().tolist()]

    before = states()
    one = probe(0, edits, scores)
    assert one is not None
    assert states() == before
    assert probe(1, edits, scores) == one


def test_the_monitor_takes_gains_as_numbers_of_a_step():
    monitor = RewardHackingMonitor()
    log = monitor.observe_hacks(0, HackGains({"blurred": [0.5, 0.25], "noisy": [-1.0]}, [0.5, 0.25]))
    assert log == {"hack/blurred": 0.375, "hack/noisy": -1.0, "hack/best": 0.375, "alarms": 0.0}
    assert monitor.observe_hacks(10, HackGains()) == {"alarms": 0.0}
    for step in range(1, 16):
        monitor = RewardHackingMonitor.from_json(json.loads(json.dumps(monitor.to_json())))  # of a restarted trainer
        log = monitor.observe_hacks(10 * step, HackGains({"blurred": [0.5, 0.25]}, [0.5]))
    (alarm,) = monitor.alarms
    assert (alarm.step, alarm.since, alarm.name) == (40, 0, "hack/blurred")
    assert alarm.action.startswith("run `editcritic audit`")
    assert alarm.value > alarm.z_limit == 4.5
    assert log["hack/blurred/z"] == 0.0
    monitor.observe_hacks(200, HackGains({"blurred": [-0.1, -0.1]}))
    for step in range(21, 30):
        monitor.observe_hacks(10 * step, HackGains({"blurred": [0.5, 0.25]}))
    assert [alarm.step for alarm in monitor.alarms] == [40, 250]  # again only after it did not pay


def test_a_hack_that_did_not_pay_in_one_of_the_last_probes_raises_no_alarm():
    tracker = HackTracker(5, 3.0)
    paid = [0.5, 0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5]
    alarms = [
        alarm
        for step, gain in enumerate(paid)
        for alarm in tracker.observe(step, HackGains({"blank": [gain + 0.01, gain - 0.01]}))[1]
    ]
    assert [alarm.step for alarm in alarms] == [8]  # the fifth probe after the one without a gain
