"""What judges really write to the alignment judgement, and what it is worth: two grades, or a failed measurement."""

import pytest

from editcritic.reward.metrics.complexedit.metrics import (
    ComplexEditInstructionFollowing,
    IdentityPreservation,
    judgement_form,
)
from editcritic.reward.queries import Failure
from editcritic.reward.queries.response_formats import parse_reply

from .scripted_judges import OPERATIONS, edit, score_of

FORM = judgement_form(2)

LIST = '[{"operation": "Remove the cup", "score": 9}, {"operation": "Turn the wall green", "score": 5}]'


def raw(following="7", preservation="9", operations=LIST, reasoning='"The cup is gone."'):
    return (
        f'{{"reasoning": {reasoning}, "operations": {operations}, '
        f'"instruction_following": {following}, "identity_preservation": {preservation}}}'
    )


CLEAN = raw()
MULTILINE = CLEAN.replace(", ", ",\n  ").replace("{", "{\n  ", 1)
SHUFFLED = f'{{"identity_preservation": 9, "instruction_following": 7, "operations": {LIST}, "reasoning": "fine"}}'
ONE = '[{"operation": "Remove the cup", "score": 9}]'
THREE = LIST.replace("]", ', {"operation": "else", "score": 1}]')

READ = {
    "clean": CLEAN,
    "with spaces and lines": f"\n\n  {MULTILINE}  \n",
    "on one line without spaces": CLEAN.replace('": ', '":').replace(", ", ","),
    "fenced": f"```json\n{CLEAN}\n```",
    "fenced without a language": f"```\n{CLEAN}\n```",
    "fenced with words around": f"Here is my judgement:\n\n```json\n{CLEAN}\n```\nI hope this helps!",
    "reasoning before": f"The cup was removed, though a shadow of it is left. The wall is green.\n\n{CLEAN}",
    "reasoning after": f"{CLEAN}\n\nThe first grade is for the shadow that is left.",
    "reasoning with other numbers": f"I would say 8/10 for the cup and 3 for the wall.\n{CLEAN}",
    "after thoughts": f"<think>Maybe 3? No, 7.</think>{CLEAN}",
    "after thoughts with another draft": f"<think>{raw('1', '1')}</think>\n{CLEAN}",
    "a comma too many in the object": CLEAN[:-1] + ",}",
    "a comma too many in the list": raw(operations=LIST[:-1] + ",]"),
    "the same twice": f"{CLEAN}\nFinal answer:\n{CLEAN}",
    "names in another order": SHUFFLED,
    "German around it": f"Die Tasse ist weg, die Wand ist grün.\n{CLEAN}\nViele Grüße",
    "Chinese around it": f"杯子已经被移除。\n{CLEAN}\n评分完毕。",
    "German inside": raw(reasoning='"Die Tasse ist weg, die Wand größtenteils grün."'),
    "escapes in the reasoning": raw(reasoning=r'"It says \"EXIT\"\n, } on the wall."'),
    "braces and commas in the reasoning": raw(reasoning='"marks like {this}, [that,] or 5,}"'),
    "empty reasoning": raw(reasoning='""'),
    "whole numbers with a decimal": raw("7.0", "9.0"),
    "strings, as the released code asks for": raw('"7"', '"9"', LIST.replace("9", '"9"')),
    "strings, and the same as integers": raw('"7"', '"9"') + "\n" + CLEAN,
    "operations in the judge's words": raw(operations=LIST.replace("Remove the cup", "cup -> gone")),
    "bold label before": f"**Answer:** {CLEAN}",
}

EDGES = {
    "lowest and highest": (raw("0", "10"), 0, 10),
    "lowest and highest as strings": (raw('"0"', '"10"'), 0, 10),
    "highest and lowest": (raw("10", "0"), 10, 0),
    "at odds with its operations": (raw("1", "9"), 1, 9),
    "grades of nought in the list": (raw("0", "9", LIST.replace("9", "0").replace("5", "0")), 0, 9),
}

FAILED = {
    "two that differ": f"{CLEAN}\n{raw('8', '9')}",
    "two in a list": f"[{CLEAN}, {raw('8', '9')}]",
    "one in a list": f"[{CLEAN}]",
    "a draft and a correction": f"{raw('3', '3')}\nOn second thoughts:\n{CLEAN}",
    "following above the scale": raw(following="11"),
    "following below the scale": raw(following="-1"),
    "preservation out of a hundred": raw(preservation="90"),
    "an operation above the scale": raw(operations=LIST.replace("9", "12")),
    "7.5": raw(following="7.5"),
    "an operation of 7.5": raw(operations=LIST.replace("9", "7.5")),
    "a string above the scale": raw('"11"', "9"),
    "strings that differ": CLEAN + "\n" + raw('"8"', '"9"'),
    "half in a string": raw('"7.5"', "9"),
    "minus in a string": raw('"-1"', "9"),
    "an empty string": raw('""', "9"),
    "7/10 in a string": raw('"7/10"', "9"),
    "7/10 bare": raw("7/10", "9"),
    "a range": raw('"7-8"', "9"),
    "a word": raw('"good"', "9"),
    "null": raw("null", "9"),
    "true": raw("true", "9"),
    "NaN": raw("NaN", "9"),
    "infinity": raw("Infinity", "9"),
    "a list of grades": raw("[7, 8]", "9"),
    "following missing": CLEAN.replace('"instruction_following": 7, ', ""),
    "preservation missing": CLEAN.replace(', "identity_preservation": 9', ""),
    "operations missing": CLEAN.replace(f'"operations": {LIST}, ', ""),
    "reasoning missing": CLEAN.replace('"reasoning": "The cup is gone.", ', ""),
    "another name": CLEAN.replace("instruction_following", "Instruction Following"),
    "a name twice": CLEAN.replace(
        '"instruction_following": 7', '"instruction_following": 7, "instruction_following": 3'
    ),
    "a name too many": CLEAN[:-1] + ', "perceptual_quality": 8}',
    "one operation of two": raw(operations=ONE),
    "three operations of two": raw(operations=THREE),
    "no operations": raw(operations="[]"),
    "operations as bare numbers": raw(operations="[9, 5]"),
    "operations as a table": raw(operations='{"Remove the cup": 9, "Turn the wall green": 5}'),
    "an operation without a score": raw(operations=LIST.replace(', "score": 9', "")),
    "nested in another name": f'{{"evaluation": {CLEAN}}}',
    "nested grades": '{"reasoning": "r", "scores": {"instruction_following": 7, "identity_preservation": 9}}',
    "refusal": "I'm sorry, but I can't help with evaluating these images.",
    "refusal in JSON": '{"error": "I cannot compare these images."}',
    "refusal with a JSON list": "I cannot do that. []",
    "empty": "",
    "white space": " \n\t ",
    "an empty object": "{}",
    "an empty fence": "```json\n```",
    "cut off in the reasoning": CLEAN[:30],
    "cut off in the list": CLEAN[:80],
    "cut off before the second grade": CLEAN[: CLEAN.index(', "identity')],
    "cut off before the last bracket": CLEAN[:-1],
    "cut off in its thoughts": "<think>The cup is gone, and the",
    "thoughts only": f"<think>{CLEAN}</think>",
    "words only": "Instruction Following: 7\nIdentity Preservation: 9",
    "one integer": "7",
    "yes": "yes",
    "single quotes": CLEAN.replace('"', "'"),
    "a comment": CLEAN.replace("7,", "7, // nearly\n"),
    "YAML": "reasoning: fine\ninstruction_following: 7\nidentity_preservation: 9",
}


def worth(text):
    """What the two metrics make of it as their only measurement."""
    rule = lambda query: parse_reply(query.form, text)  # noqa: E731
    sample = edit(operations=OPERATIONS)
    return [
        score_of(metric(n=1, max_replacements=0, operations="listed"), rule, sample)
        for metric in (ComplexEditInstructionFollowing, IdentityPreservation)
    ]


@pytest.mark.parametrize("name", READ)
def test_a_plain_answer_is_read(name):
    following, preservation = worth(READ[name])
    assert (following.value, preservation.value) == (7.0, 9.0)
    assert [credit.value for credit in following.credits.values()] == [9.0, 5.0]


@pytest.mark.parametrize("name", EDGES)
def test_the_grades_are_taken_as_they_are(name):
    text, *grades = EDGES[name]
    assert [score.value for score in worth(text)] == grades


@pytest.mark.parametrize("name", FAILED)
def test_what_is_no_answer_or_several_is_a_failed_measurement_with_the_words(name):
    text = FAILED[name]
    result = parse_reply(FORM, text)
    assert isinstance(result, Failure)
    assert result.raw == text
    for score in worth(text):
        assert (score.status, score.value) == ("failed", None)
        assert "the judge gave no answer" in score.reason
        assert [item.text for item in score.evidence] == ([text] if text else [])


def test_the_table_is_long_enough_to_mean_something():
    assert len(READ) + len(EDGES) + len(FAILED) >= 40
    assert len({*READ.values(), *FAILED.values(), *(text for text, *_ in EDGES.values())}) == len(
        [*READ, *EDGES, *FAILED]
    )
