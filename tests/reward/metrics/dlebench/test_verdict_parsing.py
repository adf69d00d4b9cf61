"""Raw answers of judges, and the verdict each gives or does not give."""

import pytest

from editcritic.reward.metrics.dlebench.replies import CONSISTENCY, FOLLOWING, parse_verdict, without_thinking

FLAWLESS, OVER, WRONG, LOST = FOLLOWING.labels
PERFECT, SINGLE, MULTIPLE, COLLAPSE = CONSISTENCY.labels


VERDICT = "<Start Final Answer>{}</Start Final Answer>"


def tagged(words: str) -> str:
    return f"<Start Thinking>I look.</Start Thinking>\n{VERDICT.format(words)}"


GIVEN = [
    # the grammar, and slips in it that change nothing
    (tagged("Flawless Execution"), FLAWLESS),
    (tagged("\nOver Modification\n"), OVER),
    (tagged("wrong action"), WRONG),
    (tagged("LOCALIZATION FAILURE"), LOST),
    (tagged("**Wrong Action**"), WRONG),
    (tagged("Wrong Action."), WRONG),
    (tagged('"Over Modification"'), OVER),
    (tagged("“Over Modification”"), OVER),
    (tagged("`Flawless Execution`"), FLAWLESS),
    (tagged("[Flawless Execution]"), FLAWLESS),
    (tagged("- Wrong Action"), WRONG),
    (tagged("Over-Modification"), OVER),
    (tagged("over_modification"), OVER),
    (tagged("Overmodification"), OVER),
    (tagged("Wrong\u00a0Action"), WRONG),
    (tagged("Localisation Failure"), LOST),
    (tagged("Localisation Failures"), LOST),
    (tagged("Wrong Actions"), WRONG),
    (tagged("Flawless Executions"), FLAWLESS),
    ("<Start Final Answer>Wrong Action</Start Final Answer>", WRONG),
    ("<start final answer>Wrong Action</start final answer>", WRONG),
    ("<Start Final Answer >\nWrong Action\n</Start Final Answer >", WRONG),
    ("<Start Final Answer>Wrong Action</Final Answer>", WRONG),
    ("<Start Final Answer>Wrong Action<End Final Answer>", WRONG),
    ("<Start Final Answer>Wrong Action", WRONG),
    ("<Start Final Answer>Wrong Action<Start Final Answer>", WRONG),
    ("<Start Thinking>I look.</Start Thinking><Start Final Answer>\nWrong Action\n<Start Final Answer>\n", WRONG),
    ("Wrong Action</Start Final Answer>", WRONG),
    ("I look.</Start Thinking>\nWrong Action\n</Start Final Answer>", WRONG),
    (tagged("Wrong Action") + "\nI hope that helps.", WRONG),
    (tagged("Wrong Action") + "\n" + tagged("Wrong Action"), WRONG),
    (tagged("Wrong Action") + "\nIt is a Wrong Action for the colour.", WRONG),
    ("It is not a Flawless Execution.\n<Start Final Answer>Wrong Action</Start Final Answer>", WRONG),
    # thoughts
    ("<Start Thinking>Flawless Execution? No.</Start Thinking>" + VERDICT.format("Wrong Action"), WRONG),
    (f"<Start Thinking>{VERDICT.format(OVER)}? No.</Start Thinking>{VERDICT.format(WRONG)}", WRONG),
    ("I look at the cup.</Start Thinking><Start Final Answer>Wrong Action</Start Final Answer>", WRONG),
    ("<Start Thinking>It is off. <Start Final Answer>Wrong Action</Start Final Answer>", WRONG),
    ("<Start Thinking>a</Start Thinking><Start Thinking>b</Start Thinking>" + tagged("Wrong Action"), WRONG),
    # no tag
    ("Wrong Action", WRONG),
    ("**Wrong Action**", WRONG),
    ("The cup is green and not blue.\n\nWrong Action\n", WRONG),
    ("It might be a Flawless Execution, but the hue is off.\nWrong Action.", WRONG),
    ("<Start Thinking>I look.</Start Thinking>\nWrong Action", WRONG),
]

UNCLEAR = [
    # labels in sentences, denied, or not there
    (tagged("not Flawless Execution"), "alone"),
    (tagged("Not a Wrong Action"), "alone"),
    (tagged("Flawless Execution?"), "alone"),
    (tagged("It is a Wrong Action."), "alone"),
    (tagged("Label: Wrong Action"), "alone"),
    (tagged("Wrong Action (2)"), "alone"),
    (tagged("Wrong Action because the cup is green"), "alone"),
    (tagged("Wrong Action / Over Modification"), "alone"),
    (tagged("Wrong Action or Over Modification"), "alone"),
    (tagged("Wrong"), "alone"),
    (tagged("Flawless"), "alone"),
    (tagged("3"), "alone"),
    (tagged("Label"), "alone"),
    (tagged(""), "alone"),
    (tagged("Perfect Consistency"), "alone"),
    (tagged("Wrong Actionable"), "alone"),
    (tagged("~~Wrong Action~~"), "alone"),
    # two verdicts
    (tagged("Wrong Action") + tagged("Over Modification"), "two different"),
    (tagged("Wrong Action") + tagged("unsure"), "alone"),
    (tagged("Wrong Action") + "\nIt may also be Over Modification.", "two different"),
    ("Wrong Action\nOver Modification", "two different"),
    ("<Start Final Answer>Wrong Action<Start Final Answer>Over Modification<Start Final Answer>", "two different"),
    ("<Start Final Answer>Wrong Action<Start Final Answer> or so", "alone"),
    ("<Start Final Answer><Start Final Answer>", "alone"),
    ("Over Modification\nWrong Action</Start Final Answer>", "two different"),
    ("It is a Wrong Action</Start Final Answer>", "last line"),
    ("Wrong Action</Start Final Answer> or so", "last line"),
    ("</Start Final Answer>", "nothing"),
    # no tag, and no last line that is a label
    ("It is a Wrong Action", "last line"),
    ("Wrong Action\nbecause the cup is green", "last line"),
    ("not Flawless Execution", "last line"),
    ("Verdict: Wrong Action", "last line"),
    ("", "nothing"),
    ("I cannot tell.", "last line"),
    # only in thoughts
    ("<Start Thinking>Wrong Action</Start Thinking>", "nothing"),
    ("<Start Thinking><Start Final Answer>Wrong Action</Start Final Answer></Start Thinking>", "nothing"),
    ("<Start Thinking>I look.\nWrong Action", "nothing"),
    ("<Start Thinking>If so I say <Start Final Answer>Wrong Action</Start Final Answer>, but I am not", "nothing"),
    (f"<Start Thinking>{VERDICT.format(WRONG)} or {VERDICT.format(OVER)}", "nothing"),
    ("<Start Thinking>I was cut off <Start Final Answer>Wrong Act", "nothing"),
]

COUNTED = [
    ("Perfect Consistency", PERFECT),
    ("Perfect Consistencies", PERFECT),
    ("single anomaly", SINGLE),
    ("Multiple Anomalies", MULTIPLE),
    ("Scene Collapses", COLLAPSE),
    ("Single Anomalies", None),
    ("Multiple Anomaly", None),
    ("Anomaly", None),
    ("One Anomaly", None),
    ("No Anomalies", None),
    ("Perfect Consistency, Single Anomaly", None),
]


def test_there_are_sixty_raw_answers_and_more():
    assert len(GIVEN) + len(UNCLEAR) + len(COUNTED) >= 60


@pytest.mark.parametrize(("text", "label"), GIVEN)
def test_a_clear_verdict_is_read(text, label):
    assert parse_verdict(FOLLOWING, text) == label


@pytest.mark.parametrize(("text", "why"), UNCLEAR)
def test_an_unclear_verdict_is_none(text, why):
    with pytest.raises(ValueError, match=why):
        parse_verdict(FOLLOWING, text)


@pytest.mark.parametrize(("words", "label"), COUNTED)
def test_one_anomaly_or_several_is_what_counts(words, label):
    if label is None:
        with pytest.raises(ValueError, match="alone"):
            parse_verdict(CONSISTENCY, tagged(words))
    else:
        assert parse_verdict(CONSISTENCY, tagged(words)) == label


@pytest.mark.parametrize("text", [text for text, _ in GIVEN + UNCLEAR])
def test_what_is_left_without_thoughts_stands_where_it_stood(text):
    left = without_thinking(text)
    assert len(left) == len(text)
    assert all(a in (b, " ") for a, b in zip(left, text, strict=True))
