"""A conversation with a judge that may call tools before its verdict, and the three tools of DLEBench for one edit.

Conversations work with any judge that answers `FreeText`: the grammar is plain text (tables 16 to 26),

    <Start Thinking>…</Start Thinking>
    <tool_call>{"name": …, "parameters": {…}}
    {"name": …, "parameters": {…}}</tool_call>

or, after the reasoning, `<Start Final Answer>Label</Start Final Answer>`; native tool calls of a judge
(`Reply.tool_calls`) count as written in it. After each reply without a verdict follows one user message with the
results of all its calls, in order. Errors are reported to the judge in place of results, and use up the turn:

- a malformed call, an unknown tool or wrong parameters: the message states the error;
- a tool whose expert fails or abstains: the message states that the tool could not answer (the reason is in the
  evidence), and the conversation continues;
- a reply with a call and a verdict, with two verdicts, or with neither: the message states the error, and none of its
  calls is run;
- text after the calls of a reply, such as invented results, is removed from the conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...engine.program import Program, Unanswered, ask
from ...image import Image
from ...queries.kinds import Judge
from ...queries.parsing import STRICT_JSON, parse_json, shorten
from ...queries.reported_speech import is_asserted, is_quoted, quotations, refuses
from ...queries.response_formats import Message, Reply, ToolCall
from ...score import Evidence
from ..prompted_metric import object_schema
from .tools import Observation, ToolError, detect_program, localize_program, zoom_program


@dataclass(frozen=True, slots=True)
class LabelScale:
    """Four labels from the best, with score 4, to the worst, with score 1. numbered_labels: those with no plural, since
    one or several is their meaning."""

    labels: tuple[str, str, str, str]
    numbered_labels: tuple[str, ...] = ()

    def rubric_score(self, label: str) -> int:
        """Score from 4 to 1, as in the paper's rubric."""
        return len(self.labels) - self.labels.index(label)

    def normalized_score(self, label: str) -> float:
        """(score - 1) / 3, in [0, 1]; the paper's tables print it times 100."""
        return (self.rubric_score(label) - 1) / (len(self.labels) - 1)

    def parse_exact(self, words: str) -> str | None:
        """The label that a text consists of, or None. Case, marks, the separator, British spelling and, if the meaning
        is the same, a plural are ignored."""
        return self._spellings().get(_normalized_label(words))

    def _spellings(self) -> dict[str, str]:
        spellings: dict[str, str] = {}
        for label in self.labels:
            normalized = _normalized_label(label)
            spellings[normalized] = spellings[normalized.replace("ization", "isation")] = label
            if label not in self.numbered_labels:
                plural = f"{normalized[:-1]}ies" if normalized.endswith("y") else f"{normalized}s"
                spellings[plural] = spellings[plural.replace("ization", "isation")] = label
        return spellings

    def labels_in(self, text: str) -> set[str]:
        """The labels that occur anywhere in a text."""
        squeezed = re.sub(r"[\s_-]+", "", text.casefold())
        return {label for spelling, label in self._spellings().items() if spelling in squeezed}

    def __str__(self) -> str:
        return ", ".join(self.labels)


FOLLOWING = LabelScale(("Flawless Execution", "Over Modification", "Wrong Action", "Localization Failure"))
CONSISTENCY = LabelScale(
    ("Perfect Consistency", "Single Anomaly", "Multiple Anomalies", "Scene Collapse"),
    numbered_labels=("Single Anomaly", "Multiple Anomalies"),
)

_MARKS = " \t\r\n\f\v\u00a0*_`\"'“”\u2018’.,:;!#()[]{}-–—"
"""Characters allowed around a label. A question mark is not: it is no verdict."""


def _normalized_label(words: str) -> str:
    return re.sub(r"[\s_-]+", "", words.strip(_MARKS).casefold())


_THINK = re.compile(
    r"(?P<open><\s*Start\s+Thinking\s*>)|<\s*(?:/\s*(?:Start\s+|End\s+)?|End\s+)Thinking\s*>", re.IGNORECASE
)
_VERDICT = r"<\s*Start\s+Final\s+Answer\s*>"
_VERDICT_END = r"<\s*(?:/\s*(?:Start\s+|End\s+)?|End\s+)Final\s+Answer\s*>"
_CALL, _CALL_END = r"<\s*tool_call\s*>", r"<\s*/\s*tool_call\s*>"
_ACT = re.compile(rf"{_VERDICT}|{_CALL}", re.IGNORECASE)
_WHOLE_ACT = re.compile(rf"{_VERDICT}.*?{_VERDICT_END}|{_CALL}.*?{_CALL_END}", re.IGNORECASE | re.DOTALL)

VERDICT = re.compile(
    rf"{_VERDICT}(.*?)(?:{_VERDICT_END}|{_VERDICT}(?=\s*\Z)|(?={_VERDICT})|\Z)", re.IGNORECASE | re.DOTALL
)
"""A tagged verdict; at the end of the reply its closing tag may be missing, or be the opening one again."""

_LAST_VERDICT_END = re.compile(rf"{_VERDICT_END}\s*\Z", re.IGNORECASE)


def without_thinking(text: str) -> str:
    """The text with its reasoning blanked, positions kept. A reply may begin within it, or leave it open: then a call
    or verdict counts only if it is the only one and ends the reply."""
    kept = list(text)
    thinking_since: int | None = None
    opened = False
    quoted = quotations(text)
    for tag in _THINK.finditer(text):
        if is_quoted(tag.span(), quoted):
            continue
        if tag["open"]:
            thinking_since = tag.start() if thinking_since is None else thinking_since
            opened = True
        elif thinking_since is not None or not opened:
            _blank(kept, thinking_since or 0, tag.end())
            thinking_since, opened = None, True
        else:
            _blank(kept, tag.start(), tag.end())
    if thinking_since is not None:
        act = _ACT.search(text, thinking_since)
        complete_act = _WHOLE_ACT.fullmatch(text[act.start() :].rstrip()) if act else None
        is_only_act = complete_act is not None and len(_ACT.findall(complete_act[0])) == 1
        _blank(kept, thinking_since, act.start() if act is not None and is_only_act else len(text))
    return "".join(kept)


def _blank(kept: list[str], start: int, end: int) -> None:
    kept[start:end] = ["\n" if letter == "\n" else " " for letter in kept[start:end]]


def parse_verdict(scale: LabelScale, text: str) -> str:
    """The label of a reply's verdict: in its tag, or the last line. Reasoning does not count. Raises ValueError with
    the reason for two labels, one within a sentence, and another one after the verdict."""
    visible = without_thinking(text)
    tagged = list(VERDICT.finditer(visible))
    label = _parse_tagged(scale, visible, tagged) if tagged else _parse_untagged(scale, visible)
    if refuses(visible):
        raise ValueError(f"it refuses to answer: {shorten(visible.strip())}")
    quoted = quotations(visible)
    if reported := [tag for tag in tagged if is_quoted(tag.span(), quoted) or not is_asserted(visible[: tag.start()])]:
        raise ValueError(f"its final answer is quoted or reported: {shorten(reported[0][0])}")
    return label


def _parse_tagged(scale: LabelScale, visible: str, tagged: Sequence[re.Match[str]]) -> str:
    labels = [scale.parse_exact(tag[1]) for tag in tagged]
    label = labels[0]
    if label is None or None in labels:
        content = next(tag[1] for tag, parsed in zip(tagged, labels, strict=True) if parsed is None)
        raise ValueError(f"its final answer was to be one of {scale} alone, and was {shorten(content.strip())}")
    if others := (set(labels) | scale.labels_in(visible[tagged[-1].end() :])) - {label}:
        raise ValueError(f"it gives two different verdicts, {label} and {', '.join(sorted(map(str, others)))}")
    return label


def _parse_untagged(scale: LabelScale, visible: str) -> str:
    lines = [line for line in _LAST_VERDICT_END.sub("", visible).splitlines() if line.strip()]
    label = scale.parse_exact(lines[-1]) if lines else None
    if label is None:
        last_line = shorten(lines[-1].strip()) if lines else "nothing"
        raise ValueError(
            f"it has no <Start Final Answer>, and its last line is {last_line} and not one of {scale} alone"
        )
    if others := {parsed for line in lines if (parsed := scale.parse_exact(line))} - {label}:
        raise ValueError(f"it gives two different verdicts, {label} and {', '.join(sorted(others))}")
    return label


_BLOCK = re.compile(r"<\s*tool_call\s*>(.*?)(?:<\s*/\s*tool_call\s*>|\Z)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCallReply:
    """Tool calls, in order, or why one cannot be run. text: of the reply up to the end of the calls."""

    calls: tuple[ToolCall | str, ...]
    text: str


def parse_tool_reply(reply: Reply, parse_label: Callable[[str], str]) -> ToolCallReply | str:
    """A reply as calls or a verdict. Raises ValueError with the reason for both or none; parse_label: text -> label, or
    raises it, too."""
    text = without_thinking(reply.text)
    blocks = _adjacent_call_blocks(text)
    if not (blocks or reply.tool_calls):
        return parse_label(reply.text)
    if VERDICT.search(text):
        raise ValueError("it has a tool call and a final answer: give one of the two")
    calls = [call for block in blocks for call in _parse_call_block(block[1])]
    prefix = reply.text[: blocks[-1].end()] if blocks else reply.text
    if reply.tool_calls:
        calls_written = "\n".join(
            f'{{"name": {json.dumps(call.name)}, "parameters": {call.arguments}}}' for call in reply.tool_calls
        )
        prefix = "\n".join(filter(None, [prefix, f"<tool_call>\n{calls_written}\n</tool_call>"]))
    return ToolCallReply((*calls, *reply.tool_calls), prefix)


def _adjacent_call_blocks(text: str) -> list[re.Match[str]]:
    """The first block of calls and the blocks that follow it directly."""
    blocks: list[re.Match[str]] = []
    for block in _BLOCK.finditer(text):
        if blocks and text[blocks[-1].end() : block.start()].strip():
            break
        blocks.append(block)
    return blocks


def _parse_call_block(block: str) -> Iterator[ToolCall | str]:
    """The calls in a block of consecutive JSON objects, up to the first that cannot be parsed."""
    rest = re.sub(r"\A\s*```(?:json)?|```\s*\Z", "", block).strip()
    if not rest:
        yield "the block is empty: write a JSON object with name and parameters into it"
    while rest:
        try:
            value, end = STRICT_JSON.raw_decode(rest)
            call = _call(value, shorten(rest[:end]))
        except (ValueError, RecursionError) as error:
            yield f"this is not JSON ({error}): {shorten(rest)}"
            return
        yield call
        rest = rest[end:].strip()


def _call(value: object, raw: str) -> ToolCall | str:
    """A call from its JSON. `arguments`, as in other grammars, is accepted for `parameters`."""
    if not (isinstance(value, dict) and isinstance(value.get("name"), str)):
        return f'a call is a JSON object with "name" and "parameters", and this is none: {raw}'
    argument_keys = value.keys() - {"name"}
    if not (argument_keys <= {"parameters", "arguments"} and len(argument_keys) <= 1):
        return f'a call has "name" and "parameters" and nothing else, and this is another thing: {raw}'
    arguments = value.get(next(iter(argument_keys)), {}) if argument_keys else {}
    if not isinstance(arguments, dict):
        return f"the parameters of {value['name']} are to be a JSON object, and are not: {raw}"
    return ToolCall(value["name"], json.dumps(arguments, ensure_ascii=False))


MAX_TOOL_CALLS = 8
"""Maximum number of calls per reply."""

RunTool = Callable[[Mapping[str, Any]], Program[Observation]]
"""Parameters -> program of a tool, which may raise `ToolError`."""
TurnPrompt = Callable[[int], str]
"""Remaining replies of the judge -> the text below the results of a turn."""


class NoVerdict(Exception):
    """The judge gave no verdict within its turns. The evidence holds its replies."""


def run_conversation(
    question: Judge,
    tools: Mapping[str, RunTool],
    parse_verdict: Callable[[str], str],
    *,
    max_turns: int,
    turn_prompt: TurnPrompt,
    evidence: list[Evidence],
) -> Program[str]:
    """The verdict of a judge that may use tools, in at most max_turns replies; evidence is extended. parse_verdict:
    text -> verdict, or raises ValueError with the reason. Raises `NoVerdict`."""
    problem = ""
    for turns_left in reversed(range(max_turns)):
        reply = yield from ask(question)
        evidence.append(Evidence(f"reply {max_turns - turns_left}", text=reply.text))
        step: ToolCallReply | str | None = None
        problem = "it asked for tools"
        try:
            step = parse_tool_reply(reply, parse_verdict)
        except ValueError as error:
            problem = str(error)
        if isinstance(step, str):
            return step
        if not turns_left:
            break
        text, content = reply.text, list[str | Image]([f"Your reply cannot be used: {problem}."])
        if step is None:
            evidence.append(Evidence("told the judge", text=problem))
        else:
            text, content = step.text, (yield from _run_tool_calls(step, tools, evidence))
        answer = (Message((text,), "assistant"), Message((*content, turn_prompt(turns_left))))
        question = replace(question, messages=(*question.messages, *answer))
    raise NoVerdict(f"the judge came to no verdict in {max_turns} replies; of the last one: {problem}")


def _run_tool_calls(
    step: ToolCallReply, tools: Mapping[str, RunTool], evidence: list[Evidence]
) -> Program[list[str | Image]]:
    parts: list[str | Image] = []
    for position, call in enumerate(step.calls, 1):
        name = call.name if isinstance(call, ToolCall) and call.name in tools else "call"
        if position > MAX_TOOL_CALLS:
            observation = Observation(f"not done: no more than {MAX_TOOL_CALLS} calls are made at once.")
        elif isinstance(call, str):
            observation = Observation(f"not done: {call}.")
        else:
            observation = yield from _run_tool_call(call, tools, evidence)
        digest = observation.image.digest if observation.image is not None else ""
        evidence.append(Evidence(f"told the judge: {name}", digest, observation.boxes, observation.text))
        parts += [f"Result {position} of {len(step.calls)}, {name}: {observation.text}", *observation.pictures]
        if position > MAX_TOOL_CALLS:
            break
    return parts


def _run_tool_call(call: ToolCall, tools: Mapping[str, RunTool], evidence: list[Evidence]) -> Program[Observation]:
    if call.name not in tools:
        return Observation(f"not done: there is no tool of this name. There are {', '.join(tools)}.")
    try:
        parameters = parse_json(_PARAMETERS[call.name], call.arguments)
    except (ValueError, RecursionError) as error:
        return Observation(f"not done: its parameters do not fit, {error}.")
    try:
        return (yield from tools[call.name](parameters))
    except ToolError as error:
        return Observation(f"not done: {error}.")
    except Unanswered as unanswered:
        evidence.append(Evidence(f"{call.name} did not answer", text=unanswered.reason))
        return Observation("the tool could not answer. Go on without it, or ask otherwise.")


SOURCE, EDITED = "Source Image", "Edited Image"

OBJECT_NAMES = ("substring", "words")
"""What a judge may have detected: a part of the instruction, or words of it in any order."""

_ARTICLES = frozenset({"a", "an", "the"})

_NAMES = {"sourceimage": SOURCE, "originalimage": SOURCE, "editedimage": EDITED}
"""The paper's prompts use Source Image, its examples Original Image."""


_TEXT = {"type": "string"}
# Image names are plain strings in the schema and checked below, so that other spellings are accepted.
_PARAMETERS: Mapping[str, str] = {
    "zoom_in_image": json.dumps(
        object_schema(
            bbox_2d={"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}, target_image=_TEXT
        )
    ),
    "localize_differences": json.dumps(object_schema(comparison_image_1=_TEXT, comparison_image_2=_TEXT)),
    "detect_object": json.dumps(object_schema(target_image=_TEXT, detect_object_name=_TEXT)),
}
"""The schemas of the tools' parameters."""


def offered_tools(
    source: Image,
    edited: Image,
    instruction: str,
    *,
    regions: int,
    threshold: float,
    enhance_below: int,
    object_names: str = "substring",
) -> Mapping[str, RunTool]:
    """The tools for two images of one size. Only what the instruction names, by `object_names`, is detected."""
    pictures = {SOURCE: source, EDITED: edited}

    def zoom_in(arguments: Mapping[str, Any]) -> Program[Observation]:
        name = resolve_image_name(arguments["target_image"])
        return zoom_program(pictures[name], arguments["bbox_2d"], name, enhance_below)

    def differences(arguments: Mapping[str, Any]) -> Program[Observation]:
        if resolve_image_name(arguments["comparison_image_1"]) == resolve_image_name(arguments["comparison_image_2"]):
            raise ToolError(f"both images are the same one: compare {SOURCE} and {EDITED}")
        return localize_program(source, edited, regions, enhance_below, (SOURCE, EDITED))

    def detect(arguments: Mapping[str, Any]) -> Program[Observation]:
        name, object_name = resolve_image_name(arguments["target_image"]), str(arguments["detect_object_name"])
        words, known = (set(re.findall(r"\w+", text.casefold())) for text in (object_name, instruction))
        is_named = bool(words - _ARTICLES) and words - _ARTICLES <= known
        if object_names == "substring":
            is_named = bool(object_name.strip()) and _plain(object_name) in _plain(instruction)
        if not is_named:
            raise ToolError(
                f"{object_name!r} is not a part of the editing instruction: copy the object's name from it"
                if object_names == "substring"
                else f"{object_name!r} has words that the editing instruction lacks: name the object in its words"
            )
        return detect_program(pictures[name], " ".join(object_name.split()), name, threshold)

    return {"zoom_in_image": zoom_in, "localize_differences": differences, "detect_object": detect}


def resolve_image_name(image: str) -> str:
    """The canonical name of an image, ignoring case and spaces. Raises `ToolError`."""
    name = _NAMES.get(re.sub(r"[\s_]+", "", image).casefold())
    if name is None:
        raise ToolError(f"there is no image {image!r}: there are {SOURCE} and {EDITED}")
    return name


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
