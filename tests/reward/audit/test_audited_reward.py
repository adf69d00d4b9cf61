"""Whatever is audited gives a score for each sample, and never raises for what a sample contains."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from editcritic.reward import EditSample, Image, Reward, Score
from editcritic.reward.audit import AuditedReward, reward_of_pictures
from editcritic.reward.audit.audited_edit import AuditedEdit
from editcritic.reward.audit.audited_reward import score_of
from editcritic.reward.audit.families.files import unreadable
from editcritic.reward.queries import Measurement
from editcritic.reward.queries.expert import Expert, ExpertDown

from ..fakes import Fake, Rated, known, picture, sample
from .audit_cases import brightness, photographs

EDITS = [sample(str(number), edited=picture(number)) for number in range(6)]


def unreadable_picture(edit: EditSample, folder: Path) -> Image:
    image = unreadable(AuditedEdit(edit, folder=folder), "broken", b"PNG?")
    assert image is not None
    return image


@pytest.mark.parametrize(
    "value",
    [
        *(1, np.float32(1), np.int64(1), np.array(1.0), np.array([1.0]), torch.tensor(1.0), torch.tensor([1.0])),
        *(True, np.bool_(True), Fraction(2, 2), Decimal("1.0"), Score.of(1.0)),
    ],
)
def test_numbers_of_any_library_are_scores(value):
    assert score_of(value).value == 1.0


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "returned None"),
        (float("nan"), "returned nan, not a finite number"),
        (float("-inf"), "returned -inf, not a finite number"),
        (torch.tensor(float("nan")), "returned nan"),
        (np.float16("inf"), "returned inf"),
        (10**400, "too large for a float"),
        (1e300, "too large to be compared"),
        ("0.5", "returned str, not a number"),
        (b"0.5", "returned bytes"),
        ([0.5], "returned list"),
        ({"reward": 0.5}, "returned dict"),
        (0.5j, "returned complex"),
        (torch.tensor([0.5, 0.5]), "returned Tensor"),
        (np.array([0.5, 0.5]), "returned ndarray"),
    ],
)
def test_what_is_no_finite_number_is_a_failure_that_says_why(value, says):
    score = score_of(value)
    assert (score.value, score.status) == (None, "failed")
    assert says in score.reason


def test_a_sample_that_raises_fails_alone():
    def scorer(samples: Sequence[EditSample]) -> list[float]:
        if any(one.id == "3" for one in samples):
            raise ZeroDivisionError("nothing changed")
        return [float(one.id) for one in samples]

    reward = AuditedReward(scorer)
    scores = reward(EDITS)
    assert [score.value for score in scores] == [0.0, 1.0, 2.0, None, 4.0, 5.0]
    assert scores[3].reason == "ZeroDivisionError: nothing changed"
    assert (reward.calls, reward.samples, reward.name) == (7, 5, "scorer")


def test_a_whole_batch_and_one_with_too_few_scores():
    def scorer(samples: Sequence[EditSample]) -> list[float]:
        return [1 / float(one.id) for one in samples]

    reward = AuditedReward(scorer)
    assert [score.reason for score in reward.whole_batch(EDITS)] == ["ZeroDivisionError: float division by zero"] * 6
    assert [score.value for score in reward.whole_batch(EDITS[1:3])] == [1.0, 0.5]
    assert reward.calls == 2
    reward = AuditedReward(lambda samples: brightness(samples)[: max(1, len(samples) - 1)])
    assert [score.value for score in reward(EDITS)] == brightness(EDITS)
    assert "5 scores for 6 samples" in reward.whole_batch(EDITS)[0].reason
    of_pictures = AuditedReward(reward_of_pictures(lambda sources, edited, instructions: [1.0]))
    assert {score.status for score in of_pictures.whole_batch(EDITS)} == {"failed"}


@pytest.mark.parametrize("wrong", [None, 0.5, "0.5", b"0.5", dict.fromkeys(range(6), 0.5), {0.5}, object()])
def test_what_is_no_list_of_scores_is_named_with_what_is_expected(wrong):
    reason = f"TypeError: a reward returns a list of scores in the order of its samples, got {type(wrong).__name__}"
    assert {score.reason for score in AuditedReward(lambda samples: wrong)(EDITS)} == {reason}
    of_pictures = AuditedReward(reward_of_pictures(lambda sources, edits, instructions: wrong))
    assert {score.reason for score in of_pictures(EDITS)} == {reason}


class Column:
    """Has no `__iter__`, as the columns of some tables."""

    def __len__(self) -> int:
        return len(EDITS)

    def __getitem__(self, number: int) -> float:
        return [0.5, 0.25, 0.0, 0.5, 0.25, 0.0][number]


def raising(error: BaseException) -> Any:
    def scorer(samples: Any) -> Any:
        raise error

    return scorer


class Wordless(Exception):
    def __str__(self) -> str:
        raise AttributeError("args")


def test_values_of_any_sequence_are_scores_and_a_callable_may_empty_its_list():
    row = [0.5, 0.25, 0.0] * 2
    for values in (Column(), (value for value in row), np.array(row), torch.tensor(row)):
        scorer: Any = lambda samples, values=values: values  # noqa: E731
        assert [score.value for score in AuditedReward(scorer)(EDITS)] == row

    def emptying(samples: Any) -> list[float]:
        values = []
        while samples:
            values += brightness([samples.pop()])
        return values[::-1]

    assert [score.value for score in AuditedReward(emptying)(EDITS)] == brightness(EDITS)
    reward = AuditedReward(brightness)
    assert (reward([]), reward.calls) == ([], 0)


@pytest.mark.parametrize(
    ("error", "cause", "reason"),
    [
        (ConnectionResetError("gone"), "infrastructure", "ConnectionResetError: gone"),
        (TimeoutError("late"), "infrastructure", "TimeoutError: late"),
        (KeyError("x"), "", "KeyError: 'x'"),
        (SystemExit("no licence"), "", "RuntimeError: the reward ended the program: sys.exit('no licence')"),
        (Wordless(), "", "Wordless: "),
    ],
)
def test_what_a_callable_raises_is_told_and_an_outage_is_infrastructure(error, cause, reason):
    assert {(score.cause, score.reason) for score in AuditedReward(raising(error))(EDITS)} == {(cause, reason)}


def test_an_interruption_is_none_of_its_failures():
    with pytest.raises(KeyboardInterrupt):
        AuditedReward(raising(KeyboardInterrupt()))(EDITS)


def test_outages_in_a_row_end_a_batch_and_single_ones_do_not():
    calls: list[list[str]] = []

    def scorer(samples: Sequence[EditSample]) -> list[float]:
        calls.append([one.id for one in samples])
        raise TimeoutError(f"after 60 s, {len(calls)}")

    reward = AuditedReward(scorer)
    scores = reward(EDITS)
    assert [len(call) for call in calls] == [6, 1, 1, 1]
    assert {score.cause for score in scores} == {"infrastructure"}
    assert [score.reason[-1] for score in scores] == ["2", "3", "4", "4", "4", "4"]

    reward.without_cache(EDITS, readable=False)  # of pictures that cannot be read, each outage is its own
    assert len(calls) == 4 + 7

    def flaky(samples: Sequence[EditSample]) -> list[float]:
        if any(one.id in "1245" for one in samples):
            raise ConnectionError("reset")
        return [float(one.id) for one in samples]

    reward = AuditedReward(flaky)
    assert [score.value for score in reward(EDITS)] == [0.0, None, None, 3.0, None, None]
    assert reward.calls == 7


def test_without_cache_experts_are_asked_again_and_equal_samples_together_once():
    expert = Fake()
    reward = AuditedReward(Reward(Rated(), {"preference": expert}))
    first = reward(EDITS)
    assert reward(EDITS) == first
    assert sum(expert.seen.values()) == 6
    assert reward.without_cache(EDITS[:2]) == first[:2]
    assert sum(expert.seen.values()) == 8
    reward.without_cache([EDITS[0], replace(EDITS[0], id="again"), replace(EDITS[0], metadata={"score": 10})])
    assert sum(expert.seen.values()) == 9
    reward.whole_batch(EDITS[:1])
    assert sum(expert.seen.values()) == 10


def test_an_expert_without_an_id_is_down_and_has_no_costs():
    class Missing(Fake):
        def __getattribute__(self, name: str) -> Any:
            if name == "id":
                raise ExpertDown("torch is not installed")
            return super().__getattribute__(name)

    experts: dict[str, Expert] = {"preference": Fake(), "judge": Missing()}
    reward = AuditedReward(Reward(Rated(), experts))
    reward(EDITS)
    assert reward.roles == {"fake": ("preference",)}


def test_broken_pictures_open_no_circuit(tmp_path: Path):
    def crashing(query: Any) -> Measurement:
        if query.image.size == (1, 1):
            raise RuntimeError("the kernel is larger than the picture")
        return Measurement(float(query.image.pixels.mean()))

    reward = AuditedReward(Reward(Rated(), {"preference": Fake(crashing)}))
    broken = [replace(one, edited=unreadable_picture(one, tmp_path)) for one in EDITS]
    tiny = [replace(EDITS[0], id="tiny", edited=picture(number, 1, 1)) for number in range(40)]
    for one in (*broken, *tiny):
        assert reward.without_cache([one])[0].value is None
    assert [score.value for score in reward(EDITS)] == pytest.approx(brightness(EDITS))
    assert [score.value for score in reward.without_cache(EDITS)] == pytest.approx(brightness(EDITS))


def test_a_function_of_pictures_gets_three_lists_of_what_can_be_read(tmp_path: Path):
    seen: list[tuple[list[str], list[tuple[int, int]], list[str]]] = []

    def mean(sources: list[PIL.Image.Image], edited: list[PIL.Image.Image], instructions: list[str]) -> list[float]:
        seen.append(([one.mode for one in sources], [one.size for one in edited], instructions))
        return [float(np.asarray(one).mean()) for one in edited]

    edits = photographs()[:3]
    batch = [edits[0], replace(edits[1], edited=unreadable_picture(edits[1], tmp_path)), edits[2]]
    reward = AuditedReward(reward_of_pictures(mean))
    scores = reward(batch)
    whole = [edits[0], edits[2]]
    assert [score.value for score in scores] == pytest.approx([brightness(whole)[0], None, brightness(whole)[1]])
    assert "broken" in scores[1].reason
    assert seen == [(["RGB"] * 2, [one.edited.size for one in whole], [one.instruction for one in whole])]
    assert reward.name == "mean"
    assert reward([batch[1]])[0].status == "failed"
    assert len(seen) == 1


def test_a_metric_is_no_reward_and_costs_are_of_one_audit():
    with pytest.raises(ValueError, match="Rated is a metric: give its name"):
        AuditedReward.bound(Rated(), None, EDITS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has its experts already"):
        AuditedReward.bound(brightness, "cpu", EDITS)
    reward = AuditedReward(Reward(Rated(), {"preference": Fake(known)}), "mine")
    reward(EDITS)
    again = AuditedReward.bound(reward, None, EDITS)
    assert (again.name, again.calls, again.samples, again.seconds, again.experts) == ("mine", 0, 0, 0.0, {})
    assert [score.value for score in again(EDITS)] == [score.value for score in reward(EDITS)]
    with pytest.raises(ValueError, match="has its experts already"):
        AuditedReward.bound(reward, "cpu", EDITS)
    failing = Reward(Rated(), {"preference": Fake(lambda query: 1 / 0)}, on_failures="raise")
    many = [sample(str(number), edited=picture(number)) for number in range(40)]
    assert {score.status for score in AuditedReward(failing)(many)} == {"failed"}
