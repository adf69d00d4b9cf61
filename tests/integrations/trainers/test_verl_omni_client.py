"""verl-omni's own HTTP client, restated, against a judge server."""

import asyncio
from typing import Any

import torch

from editcritic.integrations.serving.server import service

from .restated import edit_r1_client, verl_omni_client
from .test_edit_r1_client import as_jpeg
from .trainer_cases import Batch, Judge, batch, served, values

EDITS = batch()


def scores(url: str, edits: Batch, *, sources: bool = True, **options: Any) -> list[Any]:
    """All at once, as the reward manager asks; a failed call's exception is its result."""

    async def ask() -> list[Any]:
        calls = []
        for prompt, source, edited in zip(edits.prompts, edits.sources, edits.edited, strict=True):
            metadata = {"ref_images": [edit_r1_client._jpeg(source.pixels)]} if sources else {}
            picture = torch.from_numpy(edited.pixels.copy()).permute(2, 0, 1)
            calls.append(
                verl_omni_client.compute_score(picture, prompt, f"{url}/verl-omni", metadata=metadata, **options)
            )
        return await asyncio.gather(*calls, return_exceptions=True)

    return [one["score"] if isinstance(one, dict) else one for one in asyncio.run(ask())]


def test_what_its_own_client_sends_is_refused_in_words():
    with served(Judge().reward(), "verl-omni") as url:
        (first, *_) = scores(url, EDITS, sources=False)
    assert isinstance(first, RuntimeError)
    assert str(first).startswith("Scorer server returned HTTP 422: an edit is scored against its source, which")


def test_a_failed_edit_is_an_error_in_words_an_abstention_the_lowest_and_the_others_have_their_scores(monkeypatch):
    monkeypatch.setattr(service, "_RETRY_SHARE", 0.0)
    arrived = as_jpeg(EDITS)
    judge = Judge(failing=Judge.always(arrived.edited[5]), abstaining={arrived.edited[14].digest})
    with served(judge.reward(), "verl-omni") as url:
        got = scores(url, EDITS, retry_backoff=0.01)
    message = "Scorer server returned HTTP 422: 1 of 1 edits have no score: edit-0: failed (the judge did not"
    assert str(got[5]).startswith(message)  # its third attempt; the others were answered with 503
    expected = values(arrived)
    assert got[14] == 0.0
    assert [got[row] for row in range(16) if row not in (5, 14)] == [
        expected[row] for row in range(16) if row not in (5, 14)
    ]


def test_a_wrong_token_is_an_error_in_words():
    with served(Judge().reward(), "verl-omni", token="correct-horse-battery-staple") as url:
        (first, *_) = scores(url, EDITS)
        assert scores(url.replace("//", "//any:correct-horse-battery-staple@"), EDITS) == values(as_jpeg(EDITS))
    assert str(first).startswith("Scorer server returned HTTP 401: this server requires a token")
