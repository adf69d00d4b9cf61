"""Raters and readers that ask a judge: its reply becomes a rating or the text of an image, or a failure."""

import asyncio
import json
import pickle
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file, save_file

from editcritic.reward import EditSample, Expert, Image, Pools, Reward, SpecError, spec_of
from editcritic.reward.config import build, load_experts
from editcritic.reward.experts.colour import ColourJudge
from editcritic.reward.experts.judge_adapters import RATING_TOKENS, ArtiMuse, JudgeRater, JudgeReader, QInsight
from editcritic.reward.experts.loading.vlm_loading import VisionLanguageModel, VisionLanguageProcessor
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.experts.rapid_ocr import RapidOcr
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.metrics.edival.consistency import BackgroundConsistency
from editcritic.reward.metrics.i2ibench.overall import aesthetic_quality, image_quality
from editcritic.reward.queries import (
    Abstention,
    AsyncExpert,
    Detect,
    Detections,
    ExpertDown,
    Failure,
    Judge,
    Measurement,
    Rate,
    ReadText,
    Reply,
)
from editcritic.reward.queries.response_formats import FreeText, Message

from ..fakes import Fake, Rated, sample
from . import tiny_internvl_chat
from .asking import PICTURES, assert_down, assert_failed, in_engine, rebuilt, saying
from .http_server import Answer, completion, serving
from .pictures import patches
from .tiny_vlms import tiny_internvl


class Rater(JudgeRater):
    """Uses Q-Insight's prompts, and parses the text as a number."""

    quality = "charm"
    scale = (0.0, 10.0)
    topics: ClassVar[tuple[str, ...]] = ("q_insight",)

    def __init__(self, judge, *, prompts=None, draws=1, temperature=0.0):
        super().__init__(judge, prompts=prompts, draws=draws, temperature=temperature)

    def make_query(self, image):
        return Judge((Message((image, self.texts["q_insight"])),), FreeText(temperature=self.temperature))

    def parse_rating(self, reply):
        return float(reply.text)


def by_picture(query):
    """The number of the query's image, plus a tenth for each draw."""
    return Reply(str(PICTURES.index(query.images[0]) + query.draw / 10))


def rate(image, **other):
    return Rate(image, quality="charm", **other)


def test_ratings_come_in_the_order_of_the_questions_and_a_picture_is_asked_about_once():
    judge = Fake(by_picture)
    third = (rate(PICTURES[3]), rate(PICTURES[3], prompt="a hat"), rate(PICTURES[3], sources=(PICTURES[2],)))
    other = Rate(PICTURES[1], quality="sharpness")
    outcomes = Rater(judge)([*third, rate(PICTURES[0]), other, rate(PICTURES[4])])
    failure = Failure("Rater rates charm only, got sharpness")
    assert outcomes == [*[Measurement(3.0)] * 3, Measurement(0.0), failure, Measurement(4.0)]
    assert judge.seen.total() == 3


def test_the_rating_is_the_mean_of_its_draws_one_that_fails_fails_all_and_abstention_stays_abstention():
    judge = Fake(by_picture, batch=4)
    rater = Rater(judge, draws=3, temperature=1.0)
    assert rater.batch == 1
    outcomes: list[Any] = list(rater([rate(image) for image in PICTURES]))
    assert [outcome.value for outcome in outcomes] == pytest.approx([0.1, 1.1, 2.1, 3.1, 4.1])
    assert (max(judge.calls), sum(judge.calls)) == (4, 15)
    answers = {0: Reply("5"), 1: Abstention("who could know"), 2: Failure("busy")}
    for draws in (3, 2):
        rater = Rater(Fake(lambda query: answers[query.draw]), draws=draws, temperature=1.0)
        assert rater([rate(PICTURES[0])]) == [answers[draws - 1]]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Failure("the judge refused", raw="I can't"), "the judge refused"),
        (Reply("lovely"), "could not convert"),
        (Reply("11"), "the scale is 0 to 10, got 11"),
        (Reply("-0.1"), "the scale is 0 to 10"),
        (Reply("nan"), "the scale is 0 to 10"),
        ("not even a reply", "expects Reply"),
    ],
)
def test_what_is_no_rating_is_a_failure_with_the_words(reply, reason):
    judge = Fake(lambda query: by_picture(query) if query.images[0] == PICTURES[1] else reply)
    wrong, right = Rater(judge)([rate(PICTURES[0]), rate(PICTURES[1])])
    assert_failed(wrong, reason)
    assert isinstance(wrong, Failure)
    assert wrong.raw == getattr(reply, "raw", getattr(reply, "text", ""))
    assert right == Measurement(1.0)


class Held(Fake):
    """A judge with weights in memory that records calls."""

    def __init__(self):
        super().__init__(by_picture, name="held@1", batch=7, deadline_s=30.0)
        self.done: list[str] = []
        for name in ("load", "offload", "unload"):
            setattr(self, name, lambda name=name: self.done.append(name))

    @property
    def bytes(self):
        return {"cpu": 5}

    def usage(self):
        return {"forward_passes": 3}


def test_memory_work_limits_and_id_are_the_judges(tmp_path):
    judge = Held()
    rater = Rater(judge)
    for call in (rater.load, rater.offload, rater.unload):
        call()
    assert judge.done == ["load", "offload", "unload"]
    assert (rater.bytes, rater.usage()) == ({"cpu": 5}, {"forward_passes": 3})
    assert (rater.batch, rater.deadline_s) == (7, 30.0)
    plain = Rater(Fake())
    plain.offload()
    plain.unload()
    assert plain.bytes == {}
    (tmp_path / "q_insight.txt").write_text("How charming?", encoding="utf-8")
    given = Rater(judge, prompts=str(tmp_path))
    assert len({rater.id, given.id, Rater(judge, draws=2, temperature=1.0).id, plain.id}) == 4
    assert rater.id.startswith("Rater@1 prompts=")
    assert rater.id.endswith(" of held@1")
    assert given.make_query(PICTURES[0]).messages[0].content[-1] == "How charming?"


class Slow(AsyncExpert):
    id, kinds, concurrency = "slow", (Judge,), 3

    async def answer(self, query):
        await asyncio.sleep(0.001)
        return by_picture(query)


class Liked(Rater):
    quality = "preference"


def test_a_judge_that_waits_for_a_server_is_asked_side_by_side_and_one_that_is_down_takes_the_rater_along(monkeypatch):
    samples = [sample(str(n), edited=image) for n, image in enumerate(PICTURES)]
    assert Reward(Rated(), {"preference": Liked(Slow())})(samples).values == [0.0, 1.0, 2.0, 3.0, 4.0]
    monkeypatch.setattr(Slow, "load", Mock(side_effect=ExpertDown("no weights")))
    assert_down(Liked(Slow()), "no weights")


def test_the_judge_may_be_a_spec_and_the_rater_has_one():
    rater = Rater("colour")
    assert isinstance(rater.judge_expert, Expert)
    assert rater.judge_expert.id.startswith("colour")
    table = {"use": "tests.reward.experts.test_judge_adapters:Rater", "judge": {"use": "colour"}}
    assert rebuilt(rater).id == build(table, "editcritic.experts").id == rater.id


@pytest.mark.parametrize(
    ("kind", "judge", "options", "error", "message"),
    [
        (Rater, "pixels", {}, ValueError, "needs a judge, PixelFeatures answers"),
        (Rater, "no-such-judge", {}, SpecError, "no-such-judge"),
        (Rater, Fake(), {"draws": 0}, ValueError, "draws is 1 or more"),
        (Rater, Fake(), {"draws": 2}, ValueError, "set a temperature above 0"),
        (Rater, Fake(), {"temperature": float("nan")}, ValueError, "temperature 0 or more"),
        (Rater, Fake(), {"prompts": "nowhere"}, ValueError, "not a folder"),
        (JudgeReader, RapidOcr(), {}, ValueError, "needs a judge, RapidOcr answers ReadText: give vlm or o"),
        (JudgeReader, ColourJudge(), {}, ValueError, "ColourJudge answers about colours only: give vlm or openai"),
        (JudgeReader, Fake(), {"max_tokens": 0}, ValueError, "max_tokens is 1 or more, got 0"),
    ],
)
def test_what_cannot_work_is_refused_at_once(kind, judge, options, error, message):
    with pytest.raises(error, match=message):
        kind(judge, **options)


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        ('<think>It is sharp, perhaps a 4.</think><answer>{"rating": 3.52}</answer>', 3.52),
        ('<think>\nSoft.\n</think>\n<answer>\n```json\n{\n "rating": 2\n}\n```\n</answer>', 2.0),
        ('{"rating": "4.10"}', 4.1),
        ('<think>Not {"rating": 1.0}, for the noise is weak.</think> {"rating": 5, "reason": "none"}', 5.0),
        ("<think>It is sharp, and", "truncated during reasoning"),
        ("<think>It is sharp.</think><answer>4</answer>", "not JSON"),
        ("I cannot rate pictures of people.", "not JSON"),
        ('<answer>{"rating": 5.5}</answer>', "the scale is 1 to 5, got 5.5"),
        ('<answer>{"rating": 0}</answer>', "the scale is 1 to 5, got 0"),
        ('<answer>{"rating": "very good"}</answer>', "'very good', which is no number"),
        ('<answer>{"score": 4}</answer>', "'rating' is a required property"),
        ('<answer>{"rating": 4}</answer> or {"rating": 3}', "2 different answers"),
        ('{"rating": true}', "is wrong"),
    ],
)
def test_q_insight_reads_the_rating_after_the_thoughts_and_nothing_else(text, rating):
    (outcome,) = QInsight(saying(text))([Rate(PICTURES[0], quality="image quality")])
    if isinstance(rating, float):
        assert outcome == Measurement(rating)
    else:
        assert_failed(outcome, rating)
        assert isinstance(outcome, Failure)
        assert outcome.raw


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        (Reply("db", {"db": 0.5, "ea": 0.25, "aa": 0.25}), 0.5 * 52 + 0.25 * 76),
        (Reply("ey", {"ey": 0.5, "ea": 0.495}), (50.0 + 37.62) / 0.995),  # the sum may differ slightly from 1
        (Reply("db"), 52.0),
        (Reply("Answer: ey"), 100.0),
        *((Reply(text), None) for text in ("52", "a beautiful picture", "As an AI, I cannot say", "db or dc", "")),
    ],
)
def test_artimuse_rates_by_the_expectation_or_else_the_word(reply, rating):
    outcome: Any = ArtiMuse(saying(reply))([Rate(PICTURES[0], quality="aesthetics")])[0]
    if rating is None:
        assert isinstance(outcome, Failure)
        assert outcome.raw == reply.text
    else:
        assert outcome.value == pytest.approx(rating)


def test_a_hundred_and_one_words_stand_for_0_to_100_and_i2i_bench_is_answered():
    assert len(set(RATING_TOKENS)) == 101
    named = {"aa": 0, "ad": 3, "az": 25, "ca": 26, "cy": 50, "da": 51, "dy": 75, "ea": 76, "ed": 79, "ey": 100}
    assert {word: RATING_TOKENS.index(word) for word in named} == named
    for metric, role, rater in (
        (aesthetic_quality(), "aesthetics", ArtiMuse(saying("cy"))),
        (image_quality(), "quality", QInsight(saying('<answer>{"rating": 3.0}</answer>'))),
    ):
        assert Reward(metric, {role: rater})([sample()]).values == [0.5]


def test_the_published_raters_are_asked_in_their_words_or_those_of_a_folder(tmp_path):
    tall = patches(2, (30, 80))
    asked = QInsight(Fake(), max_tokens=99, temperature=0.5).make_query(tall)
    assert asked.form == FreeText(99, 0.5)
    system, user = asked.messages
    assert (system.role, user.role, user.content[1]) == ("system", "user", tall)
    assert "<think>" in str(system.content[0])
    assert '{"rating": ' in str(user.content[0])
    system, user = ArtiMuse(Fake()).make_query(tall).messages
    assert system.role == "system"
    assert user.content[0] == Image.of(tall.pil().resize((448, 448), 3))  # a square, bicubic
    assert "two letters" in str(user.content[1])
    for name in ("q_insight", "q_insight_system", "artimuse"):
        (tmp_path / f"{name}.txt").write_text(f"words of {name}", encoding="utf-8")
    ours, given = ArtiMuse(Fake()), ArtiMuse(Fake(), prompts=str(tmp_path))
    assert given.make_query(tall).messages[1].content[1] == "words of artimuse"
    assert given.id != ours.id
    messages = QInsight(Fake(), prompts=str(tmp_path)).make_query(tall).messages
    assert [message.content[0] for message in messages] == ["words of q_insight_system", "words of q_insight"]


def test_the_published_checkpoint_is_meant_and_nothing_is_loaded():
    published = {QInsight: "ByteDance/Q-Insight/score_degradation", ArtiMuse: "Thunderbolt215215/ArtiMuse"}
    for kind, name in published.items():
        rater = kind()
        assert isinstance(rater.judge_expert, Vlm)
        assert rater.judge_expert.name == rebuilt(rater).judge_expert.name == name
        assert rater.bytes == {"cache": 0}
    assert rebuilt(QInsight(draws=2, temperature=1.0)).draws == 2


def local(folder: Path) -> dict[str, Any]:
    return {"use": "vlm", "name": str(folder), "device": "cpu", "min_option_mass": 0.0}


def looked_at(folder: Path, image: Image) -> tuple[Any, Any, list[int]]:
    """The model, its last hidden state after the prompt from a plain call, and the 101 rating tokens."""
    model, _ = VisionLanguageModel.from_pretrained(str(folder), dtype=torch.float32, output_loading_info=True)
    processor = VisionLanguageProcessor.from_pretrained(str(folder))
    system, user = ArtiMuse(Fake()).make_query(image).messages
    shown: Any = user.content[0]
    content = [{"type": "image", "image": shown.pil()}, {"type": "text", "text": user.content[1]}]
    messages = [{"role": "system", "content": [{"type": "text", "text": system.content[0]}]}]
    messages += [{"role": "user", "content": content}]
    options: dict[str, Any] = {"tokenize": True, "return_dict": True, "return_tensors": "pt"}
    inputs = processor.apply_chat_template(messages, add_generation_prompt=True, **options)
    with torch.no_grad():
        hidden = model.model(**inputs).last_hidden_state[0, -1]
    return model, hidden, [token for (token,) in processor.tokenizer(list(RATING_TOKENS))["input_ids"]]


def test_artimuses_rating_is_the_published_expectation_also_of_a_converted_checkpoint(tmp_path):
    """In the authors' format: softmax over the logits of the 101 tokens, on which almost all probability is."""
    images = [patches(n, size) for n, size in enumerate([(60, 40), (60, 40), (30, 80)])]
    asked = [Rate(image, quality="aesthetics") for image in images]
    theirs, converted = tmp_path / "theirs", tmp_path / "converted"
    theirs.mkdir()
    tiny_internvl_chat.save(theirs, words=RATING_TOKENS)
    _, hidden, words = looked_at(theirs, images[0])
    for file in theirs.glob("*.safetensors"):
        weights = load_file(file)
        if "language_model.lm_head.weight" in weights:
            head = weights["language_model.lm_head.weight"]
            others = torch.ones(len(head), dtype=torch.bool)
            others[words] = False
            head[others] = -20.0 * hidden / hidden.square().sum()
            save_file(weights, file, metadata={"format": "pt"})
    rater = ArtiMuse(local(theirs))
    outcomes = rater(asked)
    model, hidden, words = looked_at(theirs, images[0])
    logits = (model.lm_head.weight.detach() @ hidden)[words]
    values = [getattr(outcome, "value", None) for outcome in outcomes]
    assert values[0] == pytest.approx(float(logits.softmax(-1) @ torch.arange(101.0)), abs=0.01)
    assert len(set(values)) == rater.usage()["image_passes"] == len(images)
    tiny_internvl(converted)
    again = ArtiMuse(local(converted))
    for query, *answers in zip(asked, outcomes, again(asked), strict=True):
        for answer in answers:
            query.check(answer)
    assert json.dumps(spec_of(again))


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
