"""JudgeReader: a judge's reply is the text of an image, or a failure; never an empty text by accident."""

import pickle
from typing import Any

import pytest

from editcritic.reward import Card, EditSample, Pools, Program, Reward, Score, SpecError, ask, build, spec_of
from editcritic.reward.config import load_experts
from editcritic.reward.experts.colour import ColourJudge
from editcritic.reward.experts.judge_adapters import JudgeReader
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.experts.rapid_ocr import RapidOcr
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.metrics.edival.consistency import BackgroundConsistency
from editcritic.reward.queries import Abstention, Detect, Detections, Failure, FreeText, Judge, ReadText, Reply

from ..fakes import Fake, picture
from .http_server import Answer, completion, serving
from .tiny_vlms import TINY_VLMS

PICTURES = [picture(number) for number in range(5)]
ADDRESS = "openai:http://127.0.0.1:9/v1"


def saying(*replies: Any, **options: Any) -> Fake:
    """A judge with a reply for each of the pictures, in order."""
    return Fake(lambda query: _outcome(replies[PICTURES.index(query.images[0])]), **options)


def _outcome(reply: Any) -> Any:
    return Reply(reply) if isinstance(reply, str) else reply


def read(reader: JudgeReader, count: int) -> list[Any]:
    return list(reader([ReadText(image) for image in PICTURES[:count]]))


def test_a_reply_is_one_text_without_a_place() -> None:
    first, second = read(JudgeReader(saying(" WILD\nPATH \n", "No text.")), 2)
    assert (first.text, second.text) == ("WILD\nPATH", "No text.")
    assert len(first.lines) == 1
    assert not first.is_localised


@pytest.mark.parametrize("reply", ["[no text]", "[No text].", "  [NO TEXT]\n"])
def test_an_image_without_text_is_said_to_have_none(reply: str) -> None:
    (outcome,) = read(JudgeReader(saying(reply)), 1)
    assert outcome.lines == ()
    assert outcome.is_localised


def test_an_empty_reply_and_a_failed_judge_are_failures_and_an_abstention_stays_one() -> None:
    refused = Failure("it refuses", raw="I'd rather not")
    outcomes = read(JudgeReader(saying("", " \n ", refused, Abstention("too dark"), Detections(()))), 5)
    assert [type(outcome) for outcome in outcomes] == [Failure, Failure, Failure, Abstention, Failure]
    assert outcomes[2] == refused
    assert "empty" in outcomes[0].reason


def test_the_image_comes_first_and_the_reply_may_have_as_many_tokens_as_in_the_released_code() -> None:
    queries: list[Judge] = []

    def reply(query: Judge) -> Reply:
        queries.append(query)
        return Reply("x")

    read(JudgeReader(Fake(reply)), 1)
    (query,) = queries
    assert query.messages[0].content[0] == PICTURES[0]
    assert "writing" in str(query.messages[0].content[1])
    assert query.form == FreeText(1024, 0.0)


def test_a_wanted_text_in_any_letters_asks_the_same_question() -> None:
    reader = JudgeReader(saying("a"))
    for wanted in ("", "OPEN", "Скидка"):
        assert reader.rewrite_query(ReadText(PICTURES[0], wanted), None) == ReadText(PICTURES[0])


def test_the_judge_is_given_no_more_questions_than_it_takes() -> None:
    judge = saying(*"abcde", batch=2)
    assert [outcome.text for outcome in read(JudgeReader(judge), 5)] == list("abcde")
    assert judge.calls == [2, 2, 1]


def test_its_id_has_all_that_changes_an_answer(tmp_path: Any) -> None:
    (tmp_path / "judge_reader.txt").write_text("Read.", encoding="utf-8")
    judge = saying("a")
    readers = [JudgeReader(judge), JudgeReader(judge, max_tokens=9), JudgeReader(judge, prompts=str(tmp_path))]
    assert len({reader.id for reader in readers}) == 3
    assert all(reader.id.endswith("of fake") for reader in readers)


def test_what_cannot_read_is_refused() -> None:
    with pytest.raises(ValueError, match="JudgeReader needs a judge, RapidOcr answers ReadText: give vlm or openai"):
        JudgeReader(RapidOcr())
    with pytest.raises(ValueError, match="ColourJudge answers about colours only: give vlm or openai"):
        JudgeReader(ColourJudge())
    with pytest.raises(ValueError, match="max_tokens is 1 or more, got 0"):
        JudgeReader(saying("a"), max_tokens=0)


# -- on a line and in a table -----------------------------------------------------------------------------------------


def test_the_judge_of_the_line_reads() -> None:
    experts = load_experts(f"reader=judge-reader?max_tokens=99 judge={ADDRESS}?model=m")
    reader: Any = experts["reader"]
    assert reader.judge_expert is experts["judge"]
    assert reader.max_tokens == 99
    assert list(experts) == ["reader", "judge"]


def test_another_judge_may_read() -> None:
    reader: Any = load_experts(f"judge=vlm reader=judge-reader:{ADDRESS}")["reader"]
    assert isinstance(reader.judge_expert, OpenAIJudge)
    reader = load_experts({"judge": "vlm", "reader": {"use": "judge-reader", "judge": {"use": "vlm", "batch": 3}}})[
        "reader"
    ]
    assert reader.judge_expert.batch == 3


def test_without_a_judge_it_says_what_to_bind() -> None:
    with pytest.raises(SpecError, match=r"reader: judge-reader asks a judge: bind one, as in judge=openai:http"):
        load_experts("reader=judge-reader")
    with pytest.raises(SpecError, match="judge: judge-reader asks a judge"):
        load_experts("judge=judge-reader")
    with pytest.raises(SpecError, match="reader: JudgeReader needs a judge that reads"):
        load_experts("cpu reader=judge-reader")


def test_judge_and_reader_stay_one_after_they_are_written_down() -> None:
    """Two models would not fit, and tokens would count twice."""
    reward = Reward.of("edival-if", f"cpu judge={ADDRESS}?model=m reader=judge-reader")
    again: Any = pickle.loads(pickle.dumps(reward))
    assert again.experts["reader"].judge_expert is again.experts["judge"]
    assert again.identity == reward.identity
    table = spec_of(reward.experts["reader"])
    assert table["judge"] == spec_of(reward.experts["judge"])
    alone: Any = build(table, "editcritic.experts")
    assert alone.id == reward.experts["reader"].id


def test_the_bundle_of_the_paper_reads_with_its_judge_and_finds_places_by_ocr() -> None:
    experts: Any = load_experts("edival")
    assert experts["reader"].judge_expert is experts["judge"]
    assert isinstance(experts["reader.boxes"], RapidOcr)


# -- in rewards -------------------------------------------------------------------------------------------------------

WRITE = "Add text 'WILD PATH' on the image"


class Finds(Fake):
    kinds = (Detect,)


def written(**fields: Any) -> EditSample:
    return EditSample("s", WRITE, (PICTURES[0],), PICTURES[1], **fields)


@pytest.mark.parametrize(
    ("answer", "status", "value", "reason"),
    [
        (completion("the wild path"), "scored", 1.0, ""),
        (completion("[no text]"), "scored", 0.0, "read ''"),
        (completion(""), "failed", None, "no text (finish_reason stop)"),
        (Answer(b"no", status=400), "failed", None, "400"),
    ],
    ids=["read", "none", "empty", "refused"],
)
def test_a_served_judge_reads_the_requested_text(answer: Any, status: str, value: Any, reason: str) -> None:
    with serving(lambda *_: answer if isinstance(answer, Answer) else Answer(answer)) as server:
        line = f"judge=openai:{server.url}?model=m&retries=0 reader=judge-reader detector=annotated"
        scores = Reward.of("edival-if?protocol=official", line, on_failures="none")([written()])
        assert (scores[0].status, scores[0].value) == (status, value)
        assert reason in scores[0].reason
        (requests,) = [expert.get("requests", 0) for expert in scores.stats["experts"].values()]
        assert requests == len(server.requests) > 0  # those of its judge, which was asked nothing by itself


def test_a_local_model_reads_what_it_writes_of_the_same_question(tmp_path: Any) -> None:
    """Random weights write gibberish."""
    TINY_VLMS["qwen2_vl"](tmp_path)
    judge = Vlm(str(tmp_path), device="cpu")
    reader = JudgeReader(judge, max_tokens=8)
    (outcome,) = read(reader, 1)
    reply: Any = judge([reader._question(ReadText(PICTURES[0]))])[0]
    text = reply.text.strip() if isinstance(reply, Reply) else reply.raw
    assert outcome.text == text if text else isinstance(outcome, Failure)
    assert reader.usage() == judge.usage()
    assert judge.usage()["image_passes"] == 1
    reader.unload()
    assert judge.bytes == {"cache": 0}


def test_places_of_texts_are_asked_of_a_reader_that_has_them() -> None:
    sample = written(pools=Pools(all=("text",), unchanged=()))
    experts = {"detector": Finds(lambda query: Detections(())), "features": PixelFeatures(), "pixels": PixelFeatures()}
    vague = JudgeReader(Fake(lambda query: Reply("WILD PATH")))
    (score,) = Reward(BackgroundConsistency(), {**experts, "reader": vague}, on_failures="none")([sample])
    assert score.status == "failed"
    assert score.cause == "infrastructure"
    assert "reader.boxes=rapidocr" in score.reason
    silent = JudgeReader(Fake(lambda query: Reply("[no text]")))
    for bound in ({"reader": silent}, {"reader": vague, "reader.boxes": silent}):
        (score,) = Reward(BackgroundConsistency(), {**experts, **bound})([sample])
        assert score.status == "scored"


class Readings:
    """The number of characters that are read in the edited image."""

    card = Card("readings", 1, "letters", range=(0.0, None), unit="letters", kinds={"reader": ("read_text",)})

    def __call__(self, sample: EditSample) -> Program[Score]:
        reading = yield from ask(ReadText(sample.edited))
        return Score.of(float(len(reading.text)))


def test_a_text_that_is_too_long_to_be_compared_fails() -> None:
    judge = Fake(lambda query: Reply("a" * 10_001))
    (score,) = Reward(Readings(), {"reader": JudgeReader(judge)}, on_failures="none")([written()])
    assert score.status == "failed"
    assert "10,001 characters" in score.reason
