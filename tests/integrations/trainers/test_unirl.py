"""Calls as UniRL's reward service makes them. Its HTTP client is in `serving/test_shims.py`."""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from editcritic.integrations.serving.server.app import serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.trainers.unirl import RewardResponse, UniRLRewardBackend
from editcritic.reward import EditSample, Reward
from editcritic.reward import Image as Picture
from editcritic.reward.queries import Abstention

from ...reward.fakes import Fake, Rated, known, picture


@dataclass
class Image:
    pixels: torch.Tensor


@dataclass
class Images:
    """An image a row."""

    held: list[Image]

    def to_list(self) -> list[Image]:
        return self.held


@dataclass
class ImageSets:
    """Several images a row."""

    rows: list[Images]


@dataclass
class Texts:
    texts: list[str]


@dataclass
class Request:
    """The fields and properties of UniRL's that a backend may look at."""

    generated: dict[str, Any]
    primitives: dict[str, Any] = field(default_factory=dict)
    image_references: list[Any] = field(default_factory=list)
    metadata: list[Any] | None = None
    sample_ids: list[str] | None = None
    group_ids: list[str] | None = None

    @property
    def prompts(self) -> list[str]:
        return list(self.primitives["text"].texts)


def images(*pictures: Picture) -> Images:
    return Images([Image(torch.from_numpy(one.pixels.copy()).permute(2, 0, 1) / 255) for one in pictures])


EDITED = [picture(number) for number in (11, 12, 13)]
SOURCES = [picture(1), picture(1), picture(2)]
PROMPTS = ["make it blue", "make it red", "make it blue"]


def request(**changes: Any) -> Request:
    fields = {
        "generated": {"image": images(*EDITED)},
        "primitives": {"text": Texts(PROMPTS), "image": images(*SOURCES)},
        "metadata": [None, {"editcritic": {"target_text": "CAFE"}}, {"image": "a.png"}],
        "sample_ids": ["a", "b", "c"],
        "group_ids": ["g", "g", "g"],
    }
    return Request(**{**fields, **changes})


def expected() -> list[float | None]:
    samples = [EditSample("x", "y", (picture(0),), one) for one in EDITED]
    return [score.value for score in Reward(Rated(), {"preference": Fake()})(samples)]


def seen(reward_request: Request, **options: Any) -> list[EditSample]:
    """The edits that a request is taken for."""
    samples: list[EditSample] = []
    reward = Reward(Rated(), {"preference": Fake()})

    def scorer(batch: Any) -> Any:
        samples.extend(batch)
        return reward(batch)

    UniRLRewardBackend(scorer, **options).compute_rewards(reward_request)
    return samples


def test_a_judge_server_scores_a_shard():
    service = ScoringService(Reward(Rated(), {"preference": Fake()}))
    with serve_in_thread(service) as url:
        backend = UniRLRewardBackend(url)
        assert (backend.preferred_input_kind, backend.is_available()) == ("image", True)
        assert backend.get_model_name() == "rated"
        response = backend.compute_rewards(request())
        backend.offload()
        backend.onload()
        backend.dispose()
    service.close()
    assert isinstance(response, RewardResponse)
    assert response.rewards == expected()
    assert response.component_rewards == {"rated": expected()}
    assert (response.successes, response.errors) == ([True] * 3, [None] * 3)
    assert response.compute_time >= 0


def test_edits_have_their_prompt_sources_and_groups_of_both():
    samples = seen(request())
    assert [one.instruction for one in samples] == PROMPTS
    assert [one.sources for one in samples] == [(one,) for one in SOURCES]
    assert [one.edited for one in samples] == EDITED
    assert [one.target_text for one in samples] == ["", "CAFE", ""]
    assert len({one.group for one in samples}) == 3


def test_all_pictures_of_the_users_turns_are_sources():
    several = ImageSets([images(picture(7), picture(8)), images(picture(9)), images(picture(7))])
    samples = seen(request(image_references=[images(*SOURCES), several]))
    assert [one.sources for one in samples] == [
        (picture(1), picture(7), picture(8)),
        (picture(1), picture(9)),
        (picture(2), picture(7)),
    ]


def test_the_prompt_is_that_of_the_generation_or_the_users_own():
    reward_request = request()
    reward_request.generation_prompt, reward_request.original_prompt = Texts(["g"] * 3), Texts(["o"] * 3)  # type: ignore[attr-defined]
    assert {one.instruction for one in seen(reward_request)} == {"g"}
    assert {one.instruction for one in seen(reward_request, prompt_source="original")} == {"o"}
    with pytest.raises(ValueError, match="prompt_source"):
        UniRLRewardBackend("edit-balanced", prompt_source="last")  # type: ignore[arg-type]


def test_an_edit_without_a_score_is_flagged_and_so_ends_the_step():
    def rule(query: Any) -> Any:
        return Abstention("who could know") if query.image == EDITED[1] else known(query)

    response = UniRLRewardBackend(Reward(Rated(), {"preference": Fake(rule)})).compute_rewards(request())
    assert response.successes == [True, False, True]
    assert response.errors == [None, "abstained: who could know", None]
    assert math.isnan(response.rewards[1])
    assert [response.rewards[0], response.rewards[2]] == [expected()[0], expected()[2]]
    flagged = [(i, e) for i, (ok, e) in enumerate(zip(response.successes, response.errors, strict=True)) if not ok]
    assert flagged == [(1, "abstained: who could know")], "UniRL raises on the first of these"


def test_without_pictures_or_sources_it_says_so():
    with pytest.raises(ValueError, match="this rollout has text"):
        UniRLRewardBackend("edit-balanced").compute_rewards(request(generated={"text": Texts(PROMPTS)}))
    with pytest.raises(ValueError, match="scored against its source"):
        UniRLRewardBackend("edit-balanced").compute_rewards(request(primitives={"text": Texts(PROMPTS)}))
