"""A reader that asks a judge: its reply becomes the text of an image, or a failure."""

import pickle
from typing import Any

import pytest

from editcritic.reward import EditSample, Pools, Reward, SpecError, spec_of
from editcritic.reward.config import load_experts
from editcritic.reward.experts.judge_adapters import JudgeReader
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.experts.rapid_ocr import RapidOcr
from editcritic.reward.metrics.edival.consistency import BackgroundConsistency
from editcritic.reward.queries import Abstention, Detect, Detections, Failure, ReadText, Reply
from editcritic.reward.queries.response_formats import FreeText

from ..fakes import Fake
from .asking import PICTURES, in_engine, rebuilt, saying
from .http_server import Answer, completion, serving

ADDRESS = "openai:http://127.0.0.1:9/v1"


def read(reader: JudgeReader, count: int) -> list[Any]:
    return list(reader([ReadText(image) for image in PICTURES[:count]]))


def test_a_reply_is_one_text_without_a_place_and_an_image_without_text_is_said_to_have_none():
    first, second, *none = read(
        JudgeReader(saying(" WILD\nPATH \n", "No text.", "[no text]", "[No text].", " [NO TEXT]\n")), 5
    )
    assert (first.text, second.text) == ("WILD\nPATH", "No text.")
    assert len(first.lines) == 1
    assert not first.is_localised
    assert all(outcome.lines == () and outcome.is_localised for outcome in none)


def test_an_empty_reply_and_a_failed_judge_are_failures_and_an_abstention_stays_one():
    refused = Failure("it refuses", raw="I'd rather not")
    judge = saying(Reply(""), Reply(" \n "), refused, Abstention("too dark"), Detections(()), batch=2)
    outcomes = read(JudgeReader(judge), 5)
    assert [type(outcome) for outcome in outcomes] == [Failure, Failure, Failure, Abstention, Failure]
    assert outcomes[2] == refused
    assert "empty" in outcomes[0].reason
    assert judge.calls == [2, 2, 1]  # no more at a time than the judge takes
    (long,) = in_engine(JudgeReader(saying(Reply("a" * 10_001))), [ReadText(PICTURES[0])])
    assert "10,001 characters" in long.reason


def test_the_image_comes_first_and_the_reply_may_have_as_many_tokens_as_in_the_released_code(tmp_path):
    reader = JudgeReader(judge := saying("a"))
    query = reader.make_query(PICTURES[0])
    assert query.messages[0].content[0] == PICTURES[0]
    assert "writing" in str(query.messages[0].content[1])
    assert query.form == FreeText(1024, 0.0)
    for wanted in ("", "OPEN", "Скидка"):
        assert reader.rewrite_query(ReadText(PICTURES[0], wanted), None) == ReadText(PICTURES[0])
    (tmp_path / "judge_reader.txt").write_text("Read.", encoding="utf-8")
    ids = {reader.id, JudgeReader(judge, max_tokens=9).id, JudgeReader(judge, prompts=str(tmp_path)).id}
    assert len(ids) == 3
    assert all(one.endswith("of fake") for one in ids)


def test_the_judge_of_the_line_reads_or_another_one_and_stays_one_after_it_is_written_down():
    experts: Any = load_experts(f"reader=judge-reader?max_tokens=99 judge={ADDRESS}?model=m")
    assert experts["reader"].judge_expert is experts["judge"]
    assert experts["reader"].max_tokens == 99
    assert list(experts) == ["reader", "judge"]
    reader: Any = load_experts(f"judge=vlm reader=judge-reader:{ADDRESS}")["reader"]
    assert isinstance(reader.judge_expert, OpenAIJudge)
    table = {"use": "judge-reader", "judge": {"use": "vlm", "batch": 3}}
    reader = load_experts({"judge": "vlm", "reader": table})["reader"]
    assert reader.judge_expert.batch == 3
    experts = load_experts("edival")  # the paper's reads with its judge and finds places by OCR
    assert experts["reader"].judge_expert is experts["judge"]
    assert isinstance(experts["reader.boxes"], RapidOcr)
    reward = Reward.of("edival-if", f"cpu judge={ADDRESS}?model=m reader=judge-reader")
    again: Any = pickle.loads(pickle.dumps(reward))
    assert again.experts["reader"].judge_expert is again.experts["judge"]
    assert again.identity == reward.identity
    assert spec_of(reward.experts["reader"])["judge"] == spec_of(reward.experts["judge"])
    assert rebuilt(reward.experts["reader"]).id == reward.experts["reader"].id


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reader=judge-reader", r"reader: judge-reader asks a judge: bind one, as in judge=openai:http"),
        ("judge=judge-reader", "judge: judge-reader asks a judge"),
        ("cpu reader=judge-reader", "reader: JudgeReader needs a judge that reads"),
    ],
)
def test_without_a_judge_it_says_what_to_bind(line, message):
    with pytest.raises(SpecError, match=message):
        load_experts(line)


def written(**fields: Any) -> EditSample:
    return EditSample("s", "Add text 'WILD PATH' on the image", (PICTURES[0],), PICTURES[1], **fields)


@pytest.mark.parametrize(
    ("answer", "status", "value", "reason"),
    [
        (Answer(completion("the wild path")), "scored", 1.0, ""),
        (Answer(completion("[no text]")), "scored", 0.0, "read ''"),
        (Answer(completion("")), "failed", None, "no text (finish_reason stop)"),
        (Answer(b"no", status=400), "failed", None, "400"),
    ],
    ids=["read", "none", "empty", "refused"],
)
def test_a_served_judge_reads_the_requested_text(answer, status, value, reason):
    with serving(lambda *_: answer) as server:
        line = f"judge=openai:{server.url}?model=m&retries=0 reader=judge-reader detector=annotated"
        scores = Reward.of("edival-if?protocol=official", line, on_failures="none")([written()])
        assert (scores[0].status, scores[0].value) == (status, value)
        assert reason in scores[0].reason
        (requests,) = [expert.get("requests", 0) for expert in scores.stats["experts"].values()]
        assert requests == len(server.requests) > 0  # those of its judge, which was asked nothing by itself


class Finds(Fake):
    kinds = (Detect,)


def test_places_of_texts_are_asked_of_a_reader_that_has_them():
    experts = {"detector": Finds(lambda query: Detections(())), "features": PixelFeatures(), "pixels": PixelFeatures()}
    vague, silent = JudgeReader(saying("WILD PATH")), JudgeReader(saying("[no text]"))
    bound: list[tuple[dict[str, Any], str]] = [({"reader": vague}, "failed"), ({"reader": silent}, "scored")]
    bound += [({"reader": vague, "reader.boxes": silent}, "scored")]
    for readers, status in bound:
        reward = Reward(BackgroundConsistency(), {**experts, **readers}, on_failures="none")
        (score,) = reward([written(pools=Pools(all=("text",), unchanged=()))])
        assert score.status == status
        if status == "failed":
            assert score.cause == "infrastructure"
            assert "reader.boxes=rapidocr" in score.reason
