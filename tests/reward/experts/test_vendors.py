"""OpenAIJudge reads one judge's opinion alike from every vendor's form, and thinking for no answer."""

import re
from functools import cache
from typing import Any

import pytest

from editcritic.benchmarks.human_eval.judge_faults.questions import GRADED
from editcritic.reward import EditSample, Image
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import Failure, Grade, Judge, Levels, Message, Reply, YesNo
from editcritic.reward.queries.prompts import Prompts

from ..fakes import picture
from .vendor_server import LEVELS, VENDORS, opinion, serving_vendor


def flat(brightness: float) -> Image:
    return Image.of(picture(2).pil().point(lambda _: round(255 * brightness)))


@cache
def questions() -> dict[str, Judge]:
    """By the likeliest answer."""

    def question(prompt: str, form: YesNo | Levels, brightness: float) -> Judge:
        words = Prompts("editcritic.reward.metrics.baselines").render(prompt, instruction="Make it brighter")
        return Judge((Message((picture(1), flat(brightness), words)),), form)

    levels = Levels(LEVELS, (0.0, 0.25, 0.5, 0.75, 1.0))
    asked = {"yes": question("yes_no", YesNo(), 0.8), "no": question("yes_no", YesNo(), 0.2)}
    asked |= {"good": question("level", levels, 0.8), "poor": question("level", levels, 0.2)}
    grades = {"3": 0.3, "10": 0.99}
    samples = {name: EditSample("", "Make it brighter", (picture(1),), flat(grade)) for name, grade in grades.items()}
    return asked | {name: GRADED.query(sample) for name, sample in samples.items()}


def served(name: str, url: str, thinking_tokens: int = 60) -> OpenAIJudge:
    extra = {"temperature": None} if VENDORS[name].only_temperature else {}
    return OpenAIJudge("", url, thinking_tokens=thinking_tokens, retries=0, timeout_s=5, extra=extra)


@pytest.mark.parametrize("name", VENDORS)
def test_a_vendors_reply_is_the_opinion_of_the_model(name):
    vendor = VENDORS[name]
    with serving_vendor(name) as server:
        judge = served(name, server.url)
        for answer, query in questions().items():
            (reply,) = judge([query])
            assert isinstance(reply, Reply), reply
            form: Any = query.form
            shares = {option.lower(): share for option, share in opinion(server.requests[-1].body).items()}
            said = re.search("|".join(sorted(shares, key=len, reverse=True)), reply.text.lower())
            assert said
            if not vendor.only_temperature:  # it samples whatever it is asked, else
                assert said[0] == answer
            if not reply.probabilities:
                assert not vendor.has_probabilities or isinstance(form, Grade), "a 1 may be the beginning of 10"
                assert form.reply_value(reply) == form.reply_value(Reply(said[0]))
            else:
                expected = form.expected_value(reply) if isinstance(form, Grade) else form.reply_value(reply)
                truth = sum(float(form.reply_value(Reply(option))) * share for option, share in shares.items())
                assert expected == pytest.approx(truth, abs=0.1 if isinstance(form, Grade) else 0.02)
        refused = vendor.logprobs == "refused" or vendor.limit < 20
        assert len(server.requests) == len(questions()) + 1 + refused  # and its list of models


# Not thinking without a first tag: words alone cannot tell it from an answer.
@pytest.mark.parametrize("name", [name for name, one in VENDORS.items() if one.thinking not in ((), ("unopened",))])
def test_thinking_that_was_cut_off_is_no_answer(name):
    with serving_vendor(name) as server:
        for failure in served(name, server.url, thinking_tokens=0)(list(questions().values())):
            assert isinstance(failure, Failure)
            assert re.search("thinking_tokens|allow more tokens", failure.reason), failure.reason
