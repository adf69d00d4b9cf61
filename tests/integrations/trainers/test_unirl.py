"""The backend in UniRL's reward step, and its own client against a judge server. Restated: `restated/unirl.py`."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from editcritic.integrations.serving.server import unirl_protocol
from editcritic.integrations.trainers.unirl import UniRLRewardBackend
from editcritic.reward import EditSample, Reward
from editcritic.reward import Image as Picture

from ...reward.fakes import Fake, Rated, picture
from .restated.unirl import (
    Image,
    Images,
    ImageSets,
    Part,
    RewardRequest,
    RewardResponse,
    Sample,
    Texts,
    installed,
    instantiate,
    rollout_and_score,
)  # fmt: skip
from .trainer_cases import Batch, Judge, batch, documented, served, values

EDITS = batch()
ADDRESS = "http://127.0.0.1:8321"


def images(*pictures: Picture) -> Images:
    return Images([Image(torch.from_numpy(one.pixels.copy()).permute(2, 0, 1) / 255) for one in pictures])


def rollout(edits: Batch, generated: Images | None = None) -> Sample:
    """What UniRL's engine returns: prompts, a source each, and a group of images each."""
    size = edits.group_size
    roots = [f"p{row}" for row in range(len(edits.prompts) // size)]
    inputs = [f"{root}/0" for root in roots]
    return Sample(
        [
            Part(roots, {"text": Texts(edits.prompts[::size])}, [{"domain": "edit"}] * len(roots)),
            Part(inputs, {"image": images(*edits.sources[::size])}),
            Part(
                [f"{parent}/{sibling}" for parent in inputs for sibling in range(size)],
                {"image": generated or images(*edits.edited)},
            ),
        ]
    )


def service(client: bool = False, url: str = ADDRESS, **changes: Any) -> Any:
    """Of the documented recipe with missing scores, or UniRL's own client; changes: of its backend."""
    recipe_text, missing, of_client = documented("UniRL", "yaml")
    text = (of_client if client else recipe_text + missing).replace(ADDRESS, url)
    recipe: Any = OmegaConf.to_container(OmegaConf.create(text), resolve=True)
    recipe["reward"]["backend"] |= changes
    with installed():
        return instantiate(recipe)["reward"]


def step(edits: Batch, **recipe: Any) -> Part:
    with installed():
        return rollout_and_score(service(**recipe), rollout(edits))


def test_by_default_a_missing_edit_is_flagged_and_ends_the_run_with_its_reason():
    judge = Judge(failing=Judge.always(EDITS.edited[5]))
    with pytest.raises(RuntimeError, match=r"flagged 1 of 16 as failure: \[\(5, 'failed: .*the judge did not answer"):
        step(EDITS, reward=judge.reward(on_failures="none"), outage_timeout_s=0, missing="raise")


def test_nan_is_refused_beside_a_unirl_whose_advantages_it_would_reach():
    with installed(leaves_nan_out=False):
        with pytest.raises(ValueError, match=r"missing='nan' needs a UniRL .* update it, or leave missing at 'raise'"):
            UniRLRewardBackend(Judge().reward(), missing="nan")
        UniRLRewardBackend(Judge().reward())
    assert UniRLRewardBackend(Judge().reward(), missing=math.nan).missing == "nan", "as hydra's command line reads nan"
    with pytest.raises(ValueError, match="missing must be 'raise' or 'nan', got '0'"):
        UniRLRewardBackend(Judge().reward(), missing="0")


@contextlib.contextmanager
def serving(judge: Judge) -> Iterator[str]:
    """A judge server with UniRL's protocol; its reward is the documented one by name."""
    with served({"any-edit": judge.reward()}, "unirl") as url:
        yield url


def test_its_client_gets_abstentions_as_in_process_and_what_the_server_asked_again():
    failing: dict[str, float] = {EDITS.edited[5].digest: 2}  # once in the batch, once when it is asked again at once
    judge = Judge(failing=failing, abstaining={EDITS.edited[10].digest})
    with serving(judge) as url:
        part = step(EDITS, client=True, url=url)
    expected = torch.tensor([0.0 if row == 10 else value for row, value in enumerate(values(EDITS))])
    assert part.rewards is not None
    torch.testing.assert_close(part.rewards, expected)
    assert sum(judge.batches) == 18


def test_a_score_that_stays_missing_ends_the_run_of_its_client(monkeypatch):
    monkeypatch.setattr(unirl_protocol, "CLIENT_TIMEOUT_S", 2.0)
    judge = Judge(failing=Judge.always(EDITS.edited[5]))
    with (
        serving(judge) as url,
        pytest.raises(RuntimeError, match=r"flagged 1 of 16 .*any-edit: failed: .*the judge did"),
    ):
        step(EDITS, client=True, url=url)


@dataclass
class Request:
    """A request before pull request 477, of which a backend may look at these fields and properties."""

    generated: dict[str, Any]
    primitives: dict[str, Any] = field(default_factory=dict)
    image_references: list[Any] = field(default_factory=list)
    metadata: list[Any] | None = None
    sample_ids: list[str] | None = None
    group_ids: list[str] | None = None

    @property
    def prompts(self) -> list[str]:
        return list(self.primitives["text"].texts)


EDITED = [picture(number) for number in (11, 12, 13)]
SOURCES = [picture(1), picture(1), picture(2)]
PROMPTS = ["make it blue", "make it red", "make it blue"]
METADATA = [None, {"editcritic": {"target_text": "CAFE"}}, {"image": "a.png"}]


def former_request(**changes: Any) -> Request:
    fields = {
        "generated": {"image": images(*EDITED)},
        "primitives": {"text": Texts(PROMPTS), "image": images(*SOURCES)},
        "metadata": METADATA,
        "sample_ids": ["a", "b", "c"],
        "group_ids": ["g", "g", "g"],
    }
    return Request(**{**fields, **changes})


def request(**changes: Any) -> RewardRequest:
    fields = {
        "generated": {"image": images(*EDITED)},
        "conditioning": {"image": images(*SOURCES)},
        "original_prompt": Texts(["o"] * 3),
        "generation_prompt": Texts(PROMPTS),
        "metadata": METADATA,
        "sample_ids": ["a", "b", "c"],
        "group_ids": ["g", "g", "g"],
    }
    return RewardRequest(**{**fields, **changes})


def seen(reward_request: Any, **options: Any) -> list[EditSample]:
    samples: list[EditSample] = []
    reward = Reward(Rated(), {"preference": Fake()})

    def scorer(edits: Any) -> Any:
        samples.extend(edits)
        return reward(edits)

    UniRLRewardBackend(scorer, **options).compute_rewards(reward_request)
    return samples


@pytest.mark.parametrize("build", [request, former_request])
def test_edits_have_their_prompt_sources_and_groups_of_both(build):
    samples = seen(build())
    assert [one.instruction for one in samples] == PROMPTS
    assert [one.sources for one in samples] == [(one,) for one in SOURCES]
    assert [one.edited for one in samples] == EDITED
    assert [one.target_text for one in samples] == ["", "CAFE", ""]
    assert len({one.group for one in samples}) == 3


def test_all_pictures_of_the_users_turns_are_sources():
    several = ImageSets([images(picture(7), picture(8)), images(picture(9)), images(picture(7))])
    samples = seen(former_request(image_references=[images(*SOURCES), several]))
    assert [one.sources for one in samples] == [
        (picture(1), picture(7), picture(8)),
        (picture(1), picture(9)),
        (picture(2), picture(7)),
    ]
    samples = seen(request(conditioning={"image": several}))
    assert [one.sources for one in samples] == [(picture(7), picture(8)), (picture(9),), (picture(7),)]


def test_the_prompt_is_that_of_the_generation_or_the_users_own():
    assert [one.instruction for one in seen(request())] == PROMPTS
    assert {one.instruction for one in seen(request(), prompt_source="original")} == {"o"}
    with pytest.raises(ValueError, match="prompt_source"):
        UniRLRewardBackend("edit-balanced", prompt_source="last")  # type: ignore[arg-type]


def test_the_interface_is_that_of_a_backend():
    with served(Reward(Rated(), {"preference": Fake()})) as url:
        backend = UniRLRewardBackend(url)
        assert (backend.preferred_input_kind, backend.is_available()) == ("image", True)
        assert backend.get_model_name() == "rated"
        with installed():
            response = backend.compute_rewards(request())
        backend.offload()
        backend.onload()
        backend.dispose()
    assert isinstance(response, RewardResponse)
    samples = [EditSample("x", "y", (picture(0),), one) for one in EDITED]
    assert response.rewards == [score.value for score in Reward(Rated(), {"preference": Fake()})(samples)]
    assert set(response.component_rewards) == {"unscored", "abstained", "judge_seconds"}
    assert {len(column) for column in response.component_rewards.values()} == {3}
    assert (response.successes, response.errors) == ([True] * 3, [None] * 3)
    assert response.compute_time >= 0


def test_without_pictures_sources_or_prompts_it_says_so():
    for wrong, message in (
        (request(generated={"text": Texts(PROMPTS)}), "this rollout has text"),
        (request(conditioning={}), "scored against its source"),
        (former_request(primitives={"text": Texts(PROMPTS)}), "scored against its source"),
        (request(generation_prompt=None), "no generation prompt"),
    ):
        with pytest.raises(ValueError, match=message):
            UniRLRewardBackend("edit-balanced").compute_rewards(wrong)
