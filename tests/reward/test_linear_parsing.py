"""Patterns and parsers of what strangers write: none takes more than linear time, whatever the text repeats.

Patterns are collected from the sources, so that a new one is attacked too: with the characters and words that it names
itself, and with blanks, quotes, brackets, digits and the like. Each attack has a length at which the fastest quadratic
pattern takes more than twice the process's time that is allowed, and a linear one a tenth of it.
"""

import ast
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("reward", "integrations", "cli", "verifiers", "benchmarks/suites", "benchmarks/run", "benchmarks/sceneedit")
OWN_TEXT = {"clip_preference.py", "image_reward.py"}
"""They read names of weights."""
LENGTH, LIMIT_S = 30_000, 0.3
LENGTH_PARSED, LIMIT_PARSED_S = 4_000, 0.8
METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
UNITS = (
    *(" ", "\n", "\xa0", "\u200b", "a", "a ", "A", "1", "1 ", "_", "-", ",", ", ", ". ", "'", '"', "[", "{", "("),
    *("<", "</", "\\", "*", "`", "/", "é", "́", "中"),
)
INSTRUCTIONS = (
    *("add ", "add a ", "remove a ", "replace a ", "replace a with ", "move a ", 'replace the text "'),
    *('write the text "', "change the background to ", "change the background to a, keep ", "change the count of "),
    "change the color of ",
)
PARTS = (
    *(" ", "\n ", "a ", '" ', '" on "', '" to "', '" a" in b to "', "on the left of ", "with ", "to ", "and "),
    *("and add ", ", keep ", "unchanged ", "in the image ", "'s ", ". ", "[ ", ', keep a b unchanged"'),
)
REPLIES = (
    *("", "please segment ", "answer: ", "score ", "yes ", "5 ", "{", '[{"a":', "<tool_call>", "<Start Thinking>"),
    "good ",
)
PIECES = (
    *(" ", "answer ", "answer: 5 ", "score (1-5) ", "not answer: good ", "10/", "10 out of ", "good ", "yes ", "{"),
    *("[", "[1,", '{"a":1}', '"', '\\"', ", ", "<tool_call>", "<tool_call>{}</tool_call>", "{}", "</tool_call>"),
    *("*", "_ ", "<", "< /", "<Start Final Answer>", "<Start Final Answer>x</Start Final Answer>"),
    *("</Start Thinking>", "ignore ", "flip ", "-"),
)


def patterns() -> Iterator[tuple[str, re.Pattern[str], str]]:
    """Place, pattern and method of each call of `re` with a constant pattern."""
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if path.name in OWN_TEXT:
            continue
        source = path.read_text()
        for node in ast.walk(ast.parse(source)):
            if not (isinstance(node, ast.Assign | ast.Call | ast.AnnAssign)):
                continue
            call = node if isinstance(node, ast.Call) else node.value
            if not (isinstance(call, ast.Call) and re.fullmatch(r"re\.\w+", ast.unparse(call.func)) and call.args):
                continue
            pattern, function = call.args[0], ast.unparse(call.func)[3:]
            if not (isinstance(pattern, ast.Constant) and isinstance(pattern.value, str)):
                continue
            extra = [argument for argument in call.args[1:] if "re." in ast.unparse(argument)]
            extra += [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
            flags = int(eval(ast.unparse(extra[0]), {"re": re})) if extra else 0
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            if function in METHODS and node is call:
                yield place, re.compile(pattern.value, flags), function
            elif function == "compile" and isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                used = re.findall(rf"\b{node.targets[0].id}\.(\w+)\(", source)
                yield from ((place, re.compile(pattern.value, flags), name) for name in set(used) & set(METHODS))


def words_of(pattern: str) -> set[str]:
    """The words and marks that a pattern names."""
    plain = re.sub(r"\\[a-zA-Z]|\(\?[a-zA-Z:=!<]*|\{[\d,]*\}", " ", pattern)
    return {word for word in re.findall(r"\w+|[^\w\s]", plain) if len(word) < 30}


def attacks(pattern: str = "") -> Iterator[str]:
    words = words_of(pattern)
    for unit in (*UNITS, *words, *(f"{word} " for word in words)):
        for first in {"", re.findall(r"^[\w ]*", pattern)[0]}:
            yield first + unit * (LENGTH // len(unit)) + "\x00"


@contextmanager
def at_most(seconds: float, name: str, text: str) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"{name} takes more than {seconds} s for {len(text):,} characters, {text[:60]!r}...")

    signal.signal(signal.SIGVTALRM, stop)  # of the time of this process, however many others run
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def attack_patterns() -> None:
    for place, pattern, method in patterns():
        apply: Callable[..., Any] = getattr(pattern, method)
        for text in attacks(pattern.pattern):
            with at_most(LIMIT_S, f"{place} {method}", text):
                result = apply(" ", text) if method in ("sub", "subn") else apply(text)
                if method == "finditer":
                    list(result)


def parsers() -> dict[str, Callable[[str], object]]:
    from editcritic.benchmarks.sceneedit.experts.instruction_parser import look_of
    from editcritic.benchmarks.sceneedit.experts.perception_experts import _JOINT, _SEVERAL
    from editcritic.benchmarks.suites.construction.reply_rules import garbled_reason, parse_sentence
    from editcritic.integrations.dataset_rows import split_instructions
    from editcritic.integrations.diffusers.pipeline_families import concepts
    from editcritic.reward.edit_plan import plan_schema
    from editcritic.reward.experts.judging.chat_completions import extract_tool_calls
    from editcritic.reward.metrics.any_edit.instruction_words import clauses_of, split_quotes, words_of
    from editcritic.reward.metrics.dlebench.conversation import FOLLOWING, parse_tool_reply, parse_verdict
    from editcritic.reward.metrics.edival.task_parser import parse_task
    from editcritic.reward.metrics.new_text import _INJECTION_PATTERN
    from editcritic.reward.planners.rule_planner import RulePlanner
    from editcritic.reward.queries.parsing import parse_integer, parse_json, parse_option, parse_yes_no
    from editcritic.reward.queries.reported_speech import final_answer, is_asserted, quotations, refuses
    from editcritic.reward.queries.response_formats import Reply

    schema, rules = json.dumps(plan_schema()), RulePlanner()
    return {
        "parse_task": parse_task,
        "concepts": concepts,
        "RulePlanner": lambda text: rules.plan(text[:3998]),
        "split_quotes": split_quotes,
        "clauses_of": clauses_of,
        "words_of": words_of,
        "final_answer": lambda text: final_answer(f"<think>{text}</think>"),
        "quotations": quotations,
        "is_asserted": is_asserted,
        "refuses": refuses,
        "parse_json": lambda text: parse_json(schema, text),
        "parse_option": lambda text: parse_option(("excellent", "very good", "good", "bad"), text),
        "parse_yes_no": parse_yes_no,
        "parse_integer": lambda text: parse_integer(text, 0, 10, "Instruction following"),
        "parse_tool_reply": lambda text: parse_tool_reply(Reply(text), lambda words: parse_verdict(FOLLOWING, words)),
        "extract_tool_calls": lambda text: extract_tool_calls(text, "turn"),
        "split_instructions": split_instructions,
        "parse_sentence": parse_sentence,
        "garbled_reason": garbled_reason,
        "injections": _INJECTION_PATTERN.search,
        "look_of": look_of,
        "several": lambda text: (_SEVERAL.fullmatch(" ".join(text.split())), _JOINT.split(" ".join(text.split()))),
    }


def attack_parsers() -> None:
    of_instructions = ("parse_task", "concepts", "RulePlanner", "split_quotes", "clauses_of", "words_of")
    for name, parse in parsers().items():
        firsts, units = (INSTRUCTIONS, PARTS) if name in of_instructions else (REPLIES, PIECES)
        for text in (
            first + unit * (LENGTH_PARSED // len(unit)) + last
            for first in firsts
            for unit in units
            for last in ("", '"')
        ):
            with at_most(LIMIT_PARSED_S, name, text), suppress(ValueError):
                parse(text)


def test_nothing_that_strangers_write_takes_more_than_linear_time():
    """Both halves at once: they are processes, whose own time counts."""
    with ExitStack() as stack:
        halves = []
        for half in ("patterns", "parsers"):
            code = f"from tests.reward.test_linear_parsing import attack_{half}; attack_{half}()"
            process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, cwd=ROOT)
            halves.append(stack.enter_context(process))
            stack.callback(process.kill)
        for process in halves:
            _, stderr = process.communicate(timeout=580)
            assert process.returncode == 0, stderr[-2000:]


def test_the_patterns_are_found_and_a_quadratic_one_is_noticed():
    found = list(patterns())
    places = {place.partition(":")[0] for place, _, _ in found}
    assert {"reward/metrics/new_text.py", "reward/experts/sa2va.py", "reward/queries/parsing.py"} <= places
    assert len(found) > 50
    text = " " * LENGTH
    with pytest.raises(TimeoutError, match=r"blanks takes more than 0\.3 s for"), at_most(LIMIT_S, "blanks", text):
        re.split(r"\s*,", text)
