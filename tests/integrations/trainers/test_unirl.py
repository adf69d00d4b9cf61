"""Calls as UniRL's reward service makes them. Its HTTP client is in `serving/test_shims.py`."""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from editcritic.integrations.serving.server import running
from editcritic.integrations.serving.service import Service
from editcritic.integrations.unirl import EditBackend, RewardResponse
from editcritic.reward import Abstention, EditSample, Reward
from editcritic.reward import Image as Picture

from ..reward.fakes import Fake, Rated, known, picture


@dataclass
class Image:
    pixels: torch.Tensor


@dataclass
class Images:
    """A picture a row."""

    held: list[Image]

    def to_list(self) -> list[Image]:
        return self.held


@dataclass
class ImageSets:
    """Several pictures a row."""

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
    given = {
        "generated": {"image": images(*EDITED)},
        "primitives": {"text": Texts(PROMPTS), "image": images(*SOURCES)},
        "metadata": [None, {"editcritic": {"text": "CAFE"}}, {"image": "a.png"}],
        "sample_ids": ["a", "b", "c"],
        "group_ids": ["g", "g", "g"],
    }
    return Request(**{**given, **changes})


def expected() -> list[float | None]:
    samples = [EditSample("x", "y", (picture(0),), one) for one in EDITED]
    return [score.value for score in Reward(Rated(), {"preference": Fake()})(samples)]


def seen(asked: Request, **options: Any) -> list[EditSample]:
    """The edits that a request is taken for."""
    found: list[EditSample] = []
    reward = Reward(Rated(), {"preference": Fake()})

    def scorer(samples: Any) -> Any:
        found.extend(samples)
        return reward(samples)

    EditBackend(scorer, **options).compute_rewards(asked)
    return found


def test_a_judge_server_scores_a_shard():
    service = Service(Reward(Rated(), {"preference": Fake()}))
    with running(service) as url:
        backend = EditBackend(url)
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
    found = seen(request())
    assert [one.instruction for one in found] == PROMPTS
    assert [one.sources for one in found] == [(one,) for one in SOURCES]
    assert [one.edited for one in found] == EDITED
    assert [one.text for one in found] == ["", "CAFE", ""]
    assert len({one.group for one in found}) == 3


def test_all_pictures_of_the_users_turns_are_sources():
    several = ImageSets([images(picture(7), picture(8)), images(picture(9)), images(picture(7))])
    found = seen(request(image_references=[images(*SOURCES), several]))
    assert [one.sources for one in found] == [
        (picture(1), picture(7), picture(8)),
        (picture(1), picture(9)),
        (picture(2), picture(7)),
    ]


def test_the_prompt_is_that_of_the_generation_or_the_users_own():
    asked = request()
    asked.generation_prompt, asked.original_prompt = Texts(["g"] * 3), Texts(["o"] * 3)  # type: ignore[attr-defined]
    assert {one.instruction for one in seen(asked)} == {"g"}
    assert {one.instruction for one in seen(asked, prompt_source="original")} == {"o"}
    with pytest.raises(ValueError, match="prompt_source"):
        EditBackend("edit-balanced", prompt_source="last")  # type: ignore[arg-type]


def test_an_edit_without_a_score_is_flagged_and_so_ends_the_step():
    def rule(query: Any) -> Any:
        return Abstention("who could know") if query.image == EDITED[1] else known(query)

    response = EditBackend(Reward(Rated(), {"preference": Fake(rule)})).compute_rewards(request())
    assert response.successes == [True, False, True]
    assert response.errors == [None, "abstained: who could know", None]
    assert math.isnan(response.rewards[1])
    assert [response.rewards[0], response.rewards[2]] == [expected()[0], expected()[2]]
    flagged = [(i, e) for i, (ok, e) in enumerate(zip(response.successes, response.errors, strict=True)) if not ok]
    assert flagged == [(1, "abstained: who could know")], "UniRL raises on the first of these"


def test_without_pictures_or_sources_it_says_so():
    with pytest.raises(ValueError, match="this rollout made text"):
        EditBackend("edit-balanced").compute_rewards(request(generated={"text": Texts(PROMPTS)}))
    with pytest.raises(ValueError, match="judged against its source"):
        EditBackend("edit-balanced").compute_rewards(request(primitives={"text": Texts(PROMPTS)}))
