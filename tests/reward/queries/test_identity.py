"""Identity: equal for equal rewards anywhere, different for rewards that can differ in any answer."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward import Card, Reward, SpecError
from editcritic.reward.config import build
from editcritic.reward.metrics import Gate, GeometricMean, Minimum, Product, Threshold, WeightedMean
from editcritic.reward.metrics.baselines.reward_models import JudgeYesNo
from editcritic.reward.metrics.calibration import Calibrated
from editcritic.reward.metrics.complexedit.metrics import ComplexEditOverall, PerceptualQuality
from editcritic.reward.metrics.edival.consistency import ContentConsistency, ObjectConsistency
from editcritic.reward.metrics.guards import NotACopy
from editcritic.reward.metrics.i2ibench.overall import I2IBenchOverall
from editcritic.reward.metrics.i2ibench.specialists import RegionSimilarity, SubjectExtraction
from editcritic.reward.queries.identity import content_digest, metric_digest
from editcritic.reward.queries.specs import entry_point_names
from tests.reward.metrics.test_calibration import map_of

from ..fakes import Fake, Rated, sample


@dataclass(frozen=True)
class Tuned:
    """A metric with any option."""

    option: Any = None
    version: int = 1

    @property
    def card(self) -> Card:
        return Card("tuned", self.version, "tuned")

    def __call__(self, sample):
        raise NotImplementedError


def test_the_same_reward_has_the_same_identity_in_another_process():
    line = "from editcritic.reward import Reward; print(Reward.of('edit-balanced').signature)"
    elsewhere = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, timeout=120, check=True)
    here = Reward.of("edit-balanced")
    assert elsewhere.stdout.strip() == here.signature == f"edit-balanced@1#{here.identity[:8]}"
    assert pickle.loads(pickle.dumps(here)).identity == here.identity
    assert Reward.of(here.spec).identity == here.identity


def test_an_identity_is_of_the_experts_that_are_asked():
    judge, other = Fake(name="judge"), Fake(name="other")
    one = Reward(Rated(), {"preference": judge})
    assert one.identity == Reward(Rated(), {"preference": judge, "segmenter": other}).identity
    assert one.identity != Reward(Rated(), {"preference": other}).identity
    reward = Reward(Rated(), {"preference": Fake()})
    scores = reward([sample()])
    assert scores.reward == reward.signature
    assert f'"reward": "{reward.signature}"' in scores.to_jsonl()

    class Nameless(Fake):
        def __getattribute__(self, name: str) -> Any:
            if name == "id":
                raise RuntimeError("which one?")
            return super().__getattribute__(name)

    scores = Reward(Rated(), {"preference": Nameless()}, on_failures="none")([sample()])
    assert "which one?" in scores[0].reason
    assert scores.reward == "rated@1"


OPTIONS = [
    *(None, True, 1, 1.0, 0.1, "1", "", b"1", (), (1,), (1, 2), (2, 1), {"a": 1}, {"a": 2}, {"b": 1}, {1}, {1, 2}),
    *(np.zeros(2000), np.concatenate([np.zeros(1000), [1.0], np.zeros(999)]), np.zeros(2000, np.float32)),
    *(np.zeros((2, 1000)), Tuned(), Tuned(version=2), Tuned(1), Product({"a": Tuned()}), Minimum({"a": Tuned()})),
    *(GeometricMean({"a": Tuned()}), Minimum({"a": Tuned(version=2)}), Gate(NotACopy(), Tuned())),
    *(Threshold(Tuned(), 0.5), Threshold(Tuned(), 0.6)),
]


def test_no_two_options_have_one_identity():
    digests = [metric_digest(Tuned(option)) for option in OPTIONS]
    # Equal values of Python: True and 1 and 1.0 are not one option.
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(
    "change",
    [
        lambda inner: Gate(Minimum({"a": inner}), Tuned()),
        lambda inner: WeightedMean({"a": Product({"b": inner})}),
        lambda inner: Calibrated(inner, map_of(), allow_mismatch=True),
    ],
)
def test_a_new_version_deep_in_a_composition_is_another_identity(change):
    one, other = change(Tuned()), change(Tuned(version=2))
    assert one.card.signature == other.card.signature
    assert Reward(one, {}).signature != Reward(other, {}).signature


@pytest.mark.parametrize(
    ("made", "inner", "attribute"),
    [
        (ContentConsistency, ObjectConsistency, "card"),
        (ComplexEditOverall, PerceptualQuality, "card"),
        (I2IBenchOverall, RegionSimilarity, "version"),
        (partial(SubjectExtraction, "multi-subject-extraction"), RegionSimilarity, "version"),
    ],
)
def test_a_new_version_of_a_metric_that_a_metric_is_made_of_is_another_identity(made, inner, attribute, monkeypatch):
    before = metric_digest(made())
    old = getattr(inner, attribute)
    monkeypatch.setattr(inner, attribute, replace(old, version=99) if attribute == "card" else 99)
    assert metric_digest(made()) != before


def test_registered_rewards_differ():
    built = {}
    for name in entry_point_names("editcritic.rewards"):
        with suppress(SpecError):  # compositions need parts
            built[name] = metric_digest(build(name))
    assert len(built) > 30
    assert len(set(built.values())) == len(built)


def pack(folder: Path, words: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "yes_no.txt").write_text(words, encoding="utf-8")
    return str(folder)


def test_a_prompt_pack_counts_by_its_words_when_it_was_made(tmp_path):
    one = metric_digest(JudgeYesNo(prompts=pack(tmp_path / "one", "Is it done? {instruction}")))
    assert one == metric_digest(JudgeYesNo(prompts=pack(tmp_path / "two", "Is it done? {instruction}")))
    assert one != metric_digest(JudgeYesNo(prompts=pack(tmp_path / "three", "Done? {instruction}")))
    assert one != metric_digest(JudgeYesNo())
    folder = pack(tmp_path / "pack", "Is it done? {instruction}")
    metric = JudgeYesNo(prompts=folder)
    signature, identity = metric.signature, metric_digest(metric)
    pack(tmp_path / "pack", "Well? {instruction}")
    assert "Is it done?" in first_words(metric)
    assert (metric.signature, metric_digest(metric)) == (signature, identity)
    again = JudgeYesNo(prompts=folder)
    assert "Well?" in first_words(again)
    assert metric_digest(again) != identity
    assert again.signature != signature


def test_files_in_options_count_by_their_content(tmp_path, monkeypatch):
    (tmp_path / "one.bin").write_bytes(b"1")
    (tmp_path / "two.bin").write_bytes(b"1")
    one, two = (Tuned(str(tmp_path / f"{name}.bin")) for name in ("one", "two"))
    assert metric_digest(one) == metric_digest(two) == metric_digest(Tuned(tmp_path / "one.bin"))
    (tmp_path / "two.bin").write_bytes(b"2")
    assert metric_digest(one) != metric_digest(two)
    before = metric_digest(Tuned(tmp_path))
    (tmp_path / "three.bin").write_bytes(b"3")
    assert metric_digest(Tuned(tmp_path)) != before
    monkeypatch.chdir(tmp_path)
    before = content_digest(["one.txt", str(tmp_path / "one.txt")])
    (tmp_path / "one.txt").write_text("a")
    assert content_digest(["one.txt", str(tmp_path / "one.txt")]) == before
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.txt").write_text("a")
    reward = Reward(Words("one.txt"), {})
    (tmp_path / "one.txt").write_text("b")
    assert reward.identity == reward.identity != Reward(Words("one.txt"), {}).identity
    assert Reward(Words(Path("one.txt")), {}).identity == Reward(Words("one.txt"), {}).identity


def first_words(metric: Any) -> str:
    """The words of a metric's first query."""
    request: Any = next(metric(sample()))
    return str(request.queries[0].messages)


def local_metric(value: float) -> Any:
    @dataclass(frozen=True)
    class Local:
        values: tuple[float, ...] = field(default=(value,))
        card = Card("local", 1, "local")

        def __call__(self, sample):
            raise NotImplementedError

    return Local()


def test_a_metric_without_a_spec_shares_its_identity_with_no_other():
    one, other = Reward(local_metric(1), {}), Reward(local_metric(2), {})
    assert not one.is_repeatable
    assert one.identity == one.identity != other.identity
    with pytest.raises(SpecError, match="defined inside a function"):
        metric_digest(local_metric(1))
    assert Reward(Tuned(), {}).is_repeatable
    assert replace(Tuned(), option=1) != Tuned()
    digests = [metric_digest(Words(re.compile(*pattern))) for pattern in (("cup",), ("dog",), ("cup", re.IGNORECASE))]
    assert len(set(digests)) == 3
    assert digests[0] == metric_digest(Words(re.compile("cup")))


class Words:
    """A metric whose option is a callable or another object."""

    def __init__(self, rule: Any) -> None:
        self.rule = rule

    @property
    def card(self) -> Card:
        return Card("words", 1, "words")

    def __call__(self, sample):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cup".startswith, "dog".startswith),
        ({1: 2}.get, {1: 3}.get),
        (np.sin, np.cos),
        (PIL.Image.new("RGB", (2, 2)), PIL.Image.new("RGB", (2, 2), "red")),
        (iter([1]), iter([2])),
        (np.array([{}], dtype=object), np.array([[]], dtype=object)),
        (np.ma.array([1.0, 2.0], mask=[True, False]), np.ma.array([1.0, 2.0], mask=[False, True])),
    ],
)
def test_options_whose_state_cannot_be_seen_share_no_identity(one, other):
    first, second = Reward(Words(one), {}), Reward(Words(other), {})
    assert not first.is_repeatable
    assert first.identity != second.identity


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200)
@given(st.lists(PLAIN, min_size=2, max_size=4))
def test_different_data_has_different_digests(values):
    for one, other in combinations(values, 2):
        assert (content_digest(one) == content_digest(other)) == (repr(one) == repr(other))


LEAVES = st.builds(Tuned, st.sampled_from([None, 1, 2, "1"]), st.sampled_from([1, 2]))


TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda kind, parts: kind(parts),
            st.sampled_from([WeightedMean, GeometricMean, Product, Minimum]),
            st.dictionaries(st.sampled_from("ab"), inner, min_size=1),
        ),
        st.builds(Gate, inner, inner),
        st.builds(Threshold, inner, st.sampled_from([0.25, 0.5])),
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(TREES, TREES, st.sampled_from("xy"), st.sampled_from("xy"))
def test_rewards_that_can_differ_never_share_an_identity(one, other, first_expert, second_expert):
    def reward(metric, expert):
        asking = WeightedMean({"metric": metric, "rated": Rated()})
        return Reward(asking, {"preference": Fake(name=expert)})

    same = repr(one) == repr(other) and first_expert == second_expert
    assert (reward(one, first_expert).identity == reward(other, second_expert).identity) == same
