"""Rewards refuse experts that neither answer nor adapt the queries of their role, and believe those that do not say."""

import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.reward_catalogue import describe, list_rewards
from editcritic.benchmarks.run.replay import ReplayExpert
from editcritic.benchmarks.run.run_budget import BudgetTracker
from editcritic.benchmarks.run.suite_loading import MetricSet
from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert, NoisyExpert
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import (
    Card,
    EditSample,
    Expert,
    Program,
    Reward,
    Score,
    ask,
    build,
    default_experts,
    load_experts,
)
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.experts.clip import Clip
from editcritic.reward.experts.colour import ColourJudge
from editcritic.reward.experts.loading.model_registry import bundles
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import Abstention, Detect, Match, Rate
from editcritic.reward.queries.expert import accepted_kinds, unbound_roles, unsuitable_experts
from editcritic.reward.queries.kinds import Query

from .fakes import Fake, Rated, sample

JUDGE = OpenAIJudge("m", "http://127.0.0.1:9/v1")
CLIP_MESSAGE = (
    "clip-directional cannot be scored with these experts: features.clip gets embed and embed_text queries, and "
    "PixelFeatures, bound to features, answers embed, measure: bind one that answers them, as in features.clip=clip"
)


def test_a_judge_as_reader_is_refused_with_what_to_bind_and_without_a_request() -> None:
    with pytest.raises(ValueError, match="reader gets read_text queries") as raised:
        Reward.of("edival-if", {**default_experts(), "reader": OpenAIJudge(base_url="http://127.0.0.1:9/v1")})
    assert str(raised.value) == (
        "edival-if cannot be scored with these experts: reader gets read_text queries, and OpenAIJudge, bound to "
        "reader, answers judge: bind one that answers read_text, as in reader=got-ocr, reader=judge-reader or "
        "reader=rapidocr"
    )


@pytest.mark.parametrize(
    ("role", "expert", "kind"),
    [
        *(("judge", "rapidocr", "judge"), ("detector", "rapidocr", "detect"), ("detector", "colour", "detect")),
        *(("reader", "colour", "read_text"), ("judge.planner", "rules", "judge"), ("planner", JUDGE, "plan")),
        ("segmenter", "annotated", "segment"),
    ],
)
def test_any_role_is_checked(role: str, expert: Any, kind: str) -> None:
    with pytest.raises(ValueError, match=f"{role} gets {kind} queries, .* bind one that answers {kind}"):
        Reward.of("any-edit", {"bundle": "cpu", role: expert})


def test_all_problems_are_said_and_roles_before_a_dot_may_answer():
    with pytest.raises(ValueError, match=r"judge gets .*; reader gets "):
        Reward.of("edival-if", {"bundle": "cpu", "judge": "rapidocr", "reader": "colour"})
    with pytest.raises(ValueError, match=r"features\.clip gets") as raised:
        Reward.of("clip-directional")
    assert str(raised.value) == CLIP_MESSAGE
    Reward.of("clip-directional", {"features": Clip("someone/clip")})
    assert accepted_kinds(Annotated()) == ("match", "detect")
    assert accepted_kinds(ColourJudge()) == ("judge",)
    Reward.of("edival-if", {**default_experts(), "detector": Annotated()})


class Rewrites(Expert):
    """Somebody's own: turns whatever it gets into its kind, and says nothing about it."""

    id = "rewrites"
    kinds = (Match,)

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        return Abstention("it knows nothing")

    def __call__(self, queries: Sequence[Any]) -> list[Any]:
        raise AssertionError("nothing is left to answer")


class SaysSo(Rewrites):
    adapts = (Detect,)


class NoKinds(Expert):
    id = "no kinds"

    def __call__(self, queries: Sequence[Any]) -> list[Any]:
        return []


def test_an_expert_that_rewrites_queries_and_does_not_say_which_is_believed() -> None:
    assert accepted_kinds(Rewrites()) is None
    experts = {**default_experts(), "reader": Rewrites(), "detector": Rewrites()}
    (score,) = Reward.of("edival-if", experts)([sample(instruction="Add text 'HOT' on the image")])
    assert (score.status, score.reason) == ("abstained", "it knows nothing")
    with pytest.raises(ValueError, match="SaysSo, bound to reader, answers match, detect"):
        Reward.of("edival-if", {**experts, "reader": SaysSo()})
    Reward.of("edival-if", {**experts, "detector": SaysSo()})


def test_what_says_nothing_of_its_kinds_is_not_checked():
    assert accepted_kinds(NoKinds()) is None
    assert accepted_kinds(object()) is None
    Reward.of("edival-if", {**default_experts(), "reader": NoKinds()})
    (score,) = Reward(Unsaid(), {"judge": Fake()})([sample()])
    assert score.status == "scored"
    Reward(Rated(), {"preference": JUDGE})


@dataclass(frozen=True)
class Unsaid:
    """A metric of somebody whose card has roles only."""

    card: ClassVar[Card] = Card("unsaid", 1, "rated", roles=("judge",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        answer = yield from ask(Rate(sample.edited), role="judge")
        return Score.of(answer.value or 0.0)


class Bare(Expert):
    def __call__(self, queries: Sequence[Any]) -> list[Any]:
        return []


def test_a_run_refuses_an_expert_without_kinds_or_id() -> None:
    suite: Any = TwoMetrics()
    with pytest.raises(InputError, match=r"^reader cannot be asked: NoKinds lacks `kinds`, .* \(ReadText,\)`$"):
        MetricSet.select(suite, {**default_experts(), "reader": NoKinds()})
    with pytest.raises(InputError, match=r"Bare lacks `kinds`, .* and `id`, a text with all"):
        MetricSet.select(suite, {**default_experts(), "reader": Bare()})


@pytest.mark.parametrize("wrap", [NoisyExpert, CachingExpert], ids=["noise", "cache"])
def test_a_wrapper_accepts_what_its_expert_accepts(wrap: Any) -> None:
    assert accepted_kinds(wrap(JUDGE)) == ("judge",)
    assert accepted_kinds(wrap(Annotated())) == ("match", "detect")
    assert accepted_kinds(wrap(Rewrites())) is None


def test_metered_and_recorded_experts_accept_what_theirs_do():
    experts = BudgetTracker({"judge": JUDGE, "detector": Annotated(), "own": Rewrites()}).experts
    assert [accepted_kinds(experts[role]) for role in experts] == [("judge",), ("match", "detect"), None]
    recorded: Any = ReplayExpert("any", None, False)  # type: ignore[arg-type]  # it is asked nothing here
    for name in ("edival-if", "any-edit", "i2i-overall"):
        assert not unsuitable_experts(dict.fromkeys(build(name).card.roles, recorded), build(name).card.kinds)


def test_every_reward_is_built_with_every_set_of_experts_that_can_score_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITCRITIC_JUDGE_URL", "http://127.0.0.1:9/v1")
    sets = {"scene": scene_experts(), "default": default_experts(), **{name: load_experts(name) for name in bundles()}}
    names = [entry.name for entry in list_rewards() if entry.card is not None]
    built: Counter[str] = Counter()
    refused: dict[str, dict[str, str]] = {}
    for which, experts in sets.items():
        for name in names:
            metric = build(name)
            if unbound_roles(experts, metric.card.roles):
                continue
            try:
                reward = Reward(metric, experts)
                built[which] += 1
                if name == "edival-if" and which != "scene":  # built again in another process, from its spec
                    assert pickle.loads(pickle.dumps(reward)).spec == reward.spec
            except ValueError as error:
                refused.setdefault(name, {})[which] = str(error)
    # It compares images with texts, and none of these sets has an encoder of texts: every score of it failed.
    assert list(refused) == ["clip-directional"]
    assert set(refused["clip-directional"]) == set(sets) - {"scene"}
    assert refused["clip-directional"]["default"] == CLIP_MESSAGE
    assert built["scene"] == len(names) >= 66
    assert min(built.values()) >= 58


class TwoMetrics:
    """As much of a suite as its metrics are selected from."""

    name = "two"

    def metrics(self, protocol: str | None) -> dict[str, str]:
        return {"if": "edival-if", "clip": "clip-directional"}


def test_a_suite_skips_what_it_cannot_serve():
    suite: Any = TwoMetrics()
    chosen = MetricSet.select(suite, default_experts())
    assert list(chosen.metrics) == ["if"]
    assert chosen.skipped == {"clip": "no expert is bound to features.clip"}
    with pytest.raises(InputError, match=r"metric clip cannot be computed .*features\.clip=clip"):
        MetricSet.select(suite, default_experts(), requested=["clip"])
    with pytest.raises(InputError, match=r"metric if cannot be computed .*reader=judge-reader"):
        MetricSet.select(suite, {**default_experts(), "reader": JUDGE})
    assert describe("clip-directional").unserved_roles == ("features.clip",)
    assert describe("clip-image").unserved_roles == ()
