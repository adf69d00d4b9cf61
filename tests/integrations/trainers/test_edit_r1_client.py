"""Edit-R1's own client, restated, as docs/trainers/edit_r1.md sets it up, against a judge server."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from editcritic.integrations.serving.server import service
from editcritic.integrations.trainers.flow_grpo import FlowGRPOReward
from editcritic.reward import EditSample, Image, Program, Reward, Score

from . import trainer_cases
from .killed_trainer import killed_and_restarted
from .restated import edit_r1_client
from .trainer_cases import Batch, Judge, Parted, batch, documented, served

EDITS = batch()
ROWS = [{"prompt": prompt, "image": "a.png", "requirement": f"{prompt}, and only that"} for prompt in EDITS.prompts]


@contextlib.contextmanager
def client(monkeypatch: Any, judge: Any, *, on_unscored: str = "nan", **limits: Any) -> Iterator[Any]:
    """The reward function of the trainer's configuration, which asks a server as the page says."""
    serve, train = documented("Edit-R1", "text")
    assert serve.endswith("--trainer-protocol edit-r1\n")
    name, _, address = train.split()[0].partition("=")
    assert address == "127.0.0.1:8321"
    with served(judge.reward(), "edit-r1", on_unscored=on_unscored, **limits) as url:
        monkeypatch.setenv(name, url.removeprefix("http://"))
        yield edit_r1_client.multi_score(None, {"mllm_score_continue": 1.0})


def call(reward_fn: Any, edits: Batch = EDITS, rows: Any = None) -> list[float]:
    details, _ = reward_fn(
        torch.from_numpy(edits.tensor).movedim(3, 1) / 255,
        edits.prompts,
        [{}] * len(edits.prompts) if rows is None else rows,
        [source.pil() for source in edits.sources],
        only_strict=True,
    )
    scores: list[float] = details["avg"]
    return scores


def as_jpeg(edits: Batch) -> Batch:
    """The edits as they arrive."""

    def sent(image: Image) -> Image:
        return Image.of(edit_r1_client._jpeg(image.pixels))

    return Batch(edits.prompts, [sent(one) for one in edits.sources], [sent(one) for one in edits.edited], 4)


def values(edits: Batch) -> list[float]:
    return trainer_cases.values(as_jpeg(edits))


def test_a_failure_that_passes_is_asked_again_on_the_server(monkeypatch):
    judge = Judge(failing={as_jpeg(EDITS).edited[5].digest: 2})
    with client(monkeypatch, judge, on_unscored="refuse") as reward_fn:
        assert call(reward_fn) == values(EDITS)
    assert sum(judge.batches) == 16 + 2


def test_a_refusal_arrives_in_words(monkeypatch):
    monkeypatch.setattr(service, "_RETRY_SHARE", 0.0)
    too_large = pytest.raises(AttributeError, match="editcritic: HTTP 413: 16 samples: at most 8 are accepted")
    with client(monkeypatch, Judge(), max_samples=8, max_queued_samples=8) as reward_fn, too_large:
        call(reward_fn)
    too_many = pytest.raises(AttributeError, match="HTTP 400: 34 images and 68 prompts, so they cannot be matched")
    with client(monkeypatch, Judge()) as reward_fn, too_many:
        call(reward_fn, batch(groups=17))
    no_text = pytest.raises(AttributeError, match="HTTP 422: 16 of 16 edits have no score: edit-0: not_applicable")
    with client(monkeypatch, NotApplicable(), on_unscored="refuse") as reward_fn, no_text:
        call(reward_fn)


class NotApplicable(Judge):
    def reward(self, **options: Any) -> Any:
        class Nothing(Parted):
            def __call__(self, sample: EditSample) -> Program[Score]:
                yield from super().__call__(sample)
                return Score.not_applicable("there is no text")

        return Reward(Nothing(), {"preference": self.expert}, **options)


class HintRead(Judge):
    def reward(self, **options: Any) -> Any:
        self.hints: dict[str, str] = {}
        hints = self.hints

        class Reading(Parted):
            def __call__(self, sample: EditSample) -> Program[Score]:
                hints[sample.id] = sample.hint
                return (yield from super().__call__(sample))

        return Reward(Reading(), {"preference": self.expert}, **options)


def test_a_requirement_means_the_same_in_process_and_through_the_server(monkeypatch):
    rows: list[Any] = [
        *ROWS[:12], {"requirement": ""}, {"requirement": 3}, {}, {**ROWS[15], "editcritic": {"hint": "of its own"}}
    ]  # fmt: skip
    over_http, here = HintRead(), HintRead()
    with client(monkeypatch, over_http) as reward_fn:
        call(reward_fn, rows=rows)
    call(FlowGRPOReward(here.reward()), rows=rows)
    assert over_http.hints == here.hints
    assert here.hints["edit-0"] == "make it blue, and only that"
    assert [here.hints[f"edit-{row}"] for row in range(12, 16)] == ["", "", "", "of its own"]


def trainer_step(url: str) -> list[float]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REWARD_SERVER", url.removeprefix("http://"))
        return call(edit_r1_client.multi_score(None, {"mllm_score_continue": 1.0}))


def test_a_trainer_that_is_killed_and_restarted_has_the_same_values():
    assert killed_and_restarted(f"{__name__}:trainer_step", Judge(), "edit-r1") == (values(EDITS), 16)
