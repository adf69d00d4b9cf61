"""Requested texts are read by a judge as the released code reads them: recorded cases, in released_reading.json."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.reward import Box, EditSample, Expert, Image, Reward
from editcritic.reward.experts.judge_adapters import JudgeReader
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.metrics.edival.task_parser import parse_task
from editcritic.reward.queries import Detect, Detections, FreeText, Judge, Reply

from ...fakes import Fake

CASES = json.loads((Path(__file__).parent / "released_reading.json").read_text(encoding="utf-8"))["cases"]
SIZE = (512, 512)
SOURCE, EDITED = (Image.of(np.full((*SIZE, 3), colour, np.uint8)) for colour in ((10, 20, 30), (200, 100, 50)))


class Boxes(Expert):
    """Finds the object of a case in its boxes."""

    id = "boxes of the case"
    kinds = (Detect,)

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case

    def __call__(self, queries: Sequence[Detect]) -> list[Detections]:
        return [self._detect(self.case["source" if query.image == SOURCE else "edited"]) for query in queries]

    @staticmethod
    def _detect(corners: Sequence[float] | None) -> Detections:
        if corners is None:
            return Detections(())
        x0, y0, x1, y1 = corners
        return Detections((Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, 0.8),))


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_the_verdict_and_the_question_are_those_of_the_released_code(case: dict[str, Any]) -> None:
    asked: list[Judge] = []

    def reply(query: Judge) -> Reply:
        asked.append(query)
        return Reply(case["reply"])

    judge = Fake(reply)
    experts = {"detector": Boxes(case), "judge": judge, "reader": JudgeReader(judge)}
    instruction = case["instruction"].replace("[", "").replace("]", "")
    sample = EditSample("s", instruction, (SOURCE,), EDITED, task=parse_task(instruction))
    (score,) = Reward(InstructionFollowing("official"), experts)([sample])
    assert score.value == case["score"]
    assert len(asked) == len(case["asked"])
    for query, recorded in zip(asked, case["asked"], strict=True):
        (message,) = query.messages
        image, text = message.content
        assert isinstance(image, Image)
        assert isinstance(text, str)
        assert recorded["parts"] == ["image_url", "text"]
        assert list(image.size) == recorded["size"]
        assert query.form == FreeText(recorded["max_tokens"], recorded["temperature"])


def test_there_are_verdicts_of_both_kinds() -> None:
    assert {case["score"] for case in CASES} == {0, 1}
    assert len(CASES) == 13
