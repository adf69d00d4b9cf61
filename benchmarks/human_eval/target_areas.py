"""How much of the picture an instruction's target covers, for suites without boxes (DLEBench, appendix 11, figure 3).

A judge names the target, and a detector finds it in the source. The paper has GPT-4.1 and GroundingDINO.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...reward import EditSample, Engine, Expert, Program
from ...reward.boxes import best_first
from ...reward.engine.program import ask
from ...reward.metrics.dlebench.tools import DETECTION_THRESHOLD
from ...reward.queries.kinds import Detect
from ..suites.construction.workspace import PROMPTS, RejectionLog, ask_until_valid, run_programs
from ..suites.suite import Suite
from .suite_statistics import CountTable, area_table

WHOLE_IMAGE = "image"

_RESULT = re.compile(r"\[\s*result\s*\]\s*:(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TargetArea:
    """name: of the target. ratio: of its best box, as a share of the source; 1 for the whole image, None: not found."""

    name: str
    ratio: float | None


def target_areas(
    suite: Suite,
    experts: Mapping[str, Expert],
    *,
    threshold: float = DETECTION_THRESHOLD,
    step: Callable[[], None] = lambda: None,
) -> tuple[dict[str, TargetArea], dict[str, str]]:
    """The target of each item by its id, and why there is none of others.

    experts: with the roles `judge` and `detector`. threshold: minimum score of a detection (not published).
    """
    found: dict[str, TargetArea] = {}
    problems: dict[str, str] = {}
    programs = ((item.id, partial(_area_program, item.sample, threshold)) for item in suite.items)
    with Engine() as engine:
        for result in run_programs(programs, engine, experts):
            step()
            if result.value is not None:
                found[result.id] = result.value
            else:
                problems[result.id] = result.failed or result.rejects[-1].reason
    return found, problems


def target_area_table(areas: Sequence[TargetArea], num_problems: int = 0) -> CountTable:
    """Ratios by interval, and the share of targets up to each: the CDF of figure 3."""
    ratios = [area.ratio for area in areas if area.ratio is not None]
    whole = sum(area.name == WHOLE_IMAGE for area in areas)
    counts = f"{len(ratios)} targets, of which {whole} are the whole image; {len(areas) - len(ratios)} were not found"
    notes = [
        f"{counts}, and {num_problems} not named: neither counts",
        "named by a judge, found by a detector (DLEBench, appendix 11)",
    ]
    return area_table("target-areas", "Target area, detected", ratios, notes)


def parse_target(reply: str) -> str:
    """The target's name in a reply. Raises ValueError unless there is exactly one."""
    names = {
        re.sub(r"^(?:an?|the)\s+", "", name.strip(" \t.\"'`*"), flags=re.IGNORECASE) for name in _RESULT.findall(reply)
    }
    if len(names) != 1 or not (name := names.pop()):
        raise ValueError("one line is expected: [Result]: the name")
    return WHOLE_IMAGE if name.casefold() == WHOLE_IMAGE else name


def _area_program(sample: EditSample, threshold: float, notes: RejectionLog) -> Program[TargetArea]:
    prompt = PROMPTS.render("dlebench_target", instruction=sample.instruction)
    slots = {"instruction": sample.instruction}
    name = yield from ask_until_valid(
        notes, "dlebench/target", prompt, None, parse_target, temperature=0.0, max_tokens=64, slots=slots
    )
    if name == WHOLE_IMAGE:
        return TargetArea(name, 1.0)
    detections = yield from ask(Detect(sample.source, (name,)))
    boxes = best_first(detections.above(threshold))
    return TargetArea(name, boxes[0].area if boxes else None)
