"""Sequential editing: the operations of a compound instruction (Complex-Edit, arXiv 2504.13143, section 5.4), or the
turns of a chain (EdiVal, ICLR 2026, section 2), with a selection at each step. The choice is greedy: more candidates
never lower the value of the first step, and may lower that of the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...reward import EditSample, Operation
from ...reward.metrics.edival.task_parser import pools_of
from ...reward.metrics.operations import unfold_operations
from ..selection.candidate import Candidate, Selection
from ..selection.generation import CandidateRequest
from ..selection.selection_run import SelectionRun

CandidatePath = tuple[Candidate, ...]
"""The candidates chosen so far, one per step."""

StepPlanner = Callable[[EditSample, CandidatePath], tuple[EditSample, EditSample]]
"""(sample, path so far) -> the editor's input and the reward's input of the next step."""


@dataclass(frozen=True)
class SequentialEditing:
    """A compound instruction, one of its `operations` per step: `n` candidates per step, of which the best is kept.

    Step k edits the best image of step k-1 by the instruction of operation k. A candidate is scored as an edit of the
    *original* image by T_k, the compound instruction of the first k operations: the sample's own at the last step,
    `metadata["compounds"]` if present (T_1, T_2, … as published by Complex-Edit; the last one may be missing), else
    the operations' instructions joined. Fields about the final edit (task, plan, reference, targets, target_text, hint,
    dimensions) are passed to the reward at the last step only. The object pools of a step follow from boxes and
    operations; if they do not, the objects that the final edit leaves unchanged must be unchanged at every step.

    `n=1` is plain sequential editing. A sample without operations takes one step. If no candidate of a step has a
    score, there is no winner, and `steps` has the candidates chosen so far. A budget of NFE is spread evenly over the
    steps and must allow one candidate each. A budget of judge calls or seconds can run out before the last step; then
    there is no winner either.
    """

    n: int = 4

    def __post_init__(self) -> None:
        check_count(type(self).__name__, self.n)

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        return run_stepwise(run, samples, compound_step, n=self.n)


@dataclass(frozen=True)
class MultiTurnEditing:
    """A chain of turns, each an edit of its own: `n` candidates per turn, of which the best is kept.

    The turns are the sample's `operations`. A candidate of turn t is scored as an edit of the image chosen at turn t-1,
    by the instruction and task of turn t, with the turns before it as `history` and the object pools after it, which
    start from the names of the sample's boxes (pools without boxes: as in `SequentialEditing`). The editor gets
    `history` too. Fields about the final edit (reference, target_text, hint) are passed to the reward at the last turn
    only; targets and dimensions, which belong to one instruction, never; a plan only where there are no operations.

    Steps without a score and exhausted budgets: as in `SequentialEditing`.
    """

    n: int = 4

    def __post_init__(self) -> None:
        check_count(type(self).__name__, self.n)

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        return run_stepwise(run, samples, turn_step, n=self.n)


# -- inputs of a step -------------------------------------------------------------------------------------------------


_UNFINISHED: Mapping[str, Any] = {"pools": None, "reference": None, "target_text": "", "hint": ""}
"""What is said of the final edit, before the last step."""


def compound_step(sample: EditSample, path: CandidatePath) -> tuple[EditSample, EditSample]:
    """The next operation on the last image; scored as all operations so far on the original image."""
    operations, step = operations_of(sample), len(path) + 1
    editor_input = _edit_of_step(sample, path)
    if step == len(operations):
        return editor_input, sample
    reward_input = replace(
        sample,
        instruction=compound_instruction(sample, step),
        group="",
        operations=operations[:step],
        task=operations[0].task if step == 1 else None,
        plan=None,
        targets=(),
        dimensions=None,
        **_UNFINISHED,
    )  # the mask stays: pixels that the final edit must preserve, every step must preserve
    return editor_input, replace(reward_input, pools=pools_of(unfold_operations(reward_input)) or sample.pools)


def turn_step(sample: EditSample, path: CandidatePath) -> tuple[EditSample, EditSample]:
    """The next turn; editor and reward have the same input."""
    operations = operations_of(sample)
    turn = replace(
        _edit_of_step(sample, path),
        task=operations[len(path)].task,
        targets=(),
        dimensions=None,
        history=(*sample.history, *(candidate.sample for candidate in path if candidate.sample is not None)),
        **({} if len(path) + 1 == len(operations) else _UNFINISHED),
    )
    turn = replace(turn, pools=pools_of(turn) or sample.pools)
    return turn, turn


def operations_of(sample: EditSample) -> tuple[Operation, ...]:
    """The sample's operations, or its own instruction as the only one."""
    return sample.operations or (Operation(sample.instruction, task=sample.task),)


def compound_instruction(sample: EditSample, step: int) -> str:
    """T_k: the instruction for the first `step` operations, fewer than all. Raises ValueError."""
    compounds = sample.metadata.get("compounds")
    if compounds is None:
        return join_instructions([operation.instruction for operation in sample.operations[:step]])
    needed = len(sample.operations) - 1
    if (
        isinstance(compounds, str)
        or len(compounds) < needed
        or not all(isinstance(compound, str) and compound for compound in compounds)
    ):
        raise ValueError(
            f"sample {sample.id!r}: metadata['compounds'] must have one instruction per step, at least {needed} for "
            f"{needed + 1} operations, got {compounds!r:.200}"
        )
    instruction: str = compounds[step - 1]
    return instruction


def join_instructions(instructions: Sequence[str]) -> str:
    """Several instructions as one sentence: `Remove the cat, add a red ball, and make it night`."""
    clauses = [instruction.strip().rstrip(".").rstrip() for instruction in instructions]
    clauses[1:] = [clause if clause[:2].isupper() else clause[:1].lower() + clause[1:] for clause in clauses[1:]]
    if len(clauses) <= 2:
        return " and ".join(clauses)
    return ", ".join(clauses[:-1]) + f", and {clauses[-1]}"


def _edit_of_step(sample: EditSample, path: CandidatePath) -> EditSample:
    """The next operation alone, on the sample's sources, the first one replaced by the last image of the path."""
    picture = path[-1].picture if path else None
    sources = sample.sources if picture is None else (picture, *sample.sources[1:])
    instruction, plan = operations_of(sample)[len(path)].instruction, None if sample.operations else sample.plan
    return replace(
        sample, instruction=instruction, sources=sources, edited=sources[0], group="", operations=(), plan=plan
    )


# -- the loop over steps ----------------------------------------------------------------------------------------------


@dataclass
class _StepwiseState:
    """One sample. beam: the paths that continue. failure: why none of them does."""

    sample: EditSample
    beam: list[CandidatePath] = field(default_factory=lambda: [()])
    candidates: list[Candidate] = field(default_factory=list)
    reason: str = ""
    failure: str = ""
    stop_reason: str = ""

    @property
    def count(self) -> int:
        return len(operations_of(self.sample))


def run_stepwise(
    run: SelectionRun, samples: Sequence[EditSample], step_planner: StepPlanner, *, n: int, width: int = 1
) -> list[Selection]:
    """`n` candidates per step in all, which continue the best `width` of the step before, round-robin.

    Raises ValueError, before generation, for a budget of less than one candidate per step.
    """
    states = [_StepwiseState(sample) for sample in samples]
    steps, limit = sum(state.count for state in states), run.budget.nfe
    if limit is not None and limit < (needed := run.nfe_per_image * steps):
        raise ValueError(
            f"a budget of {limit} NFE is too small: one candidate for each of {steps} steps takes {needed}"
        )
    for step in range(1, max((state.count for state in states), default=0) + 1):
        active = [state for state in states if step <= state.count and not state.failure]
        count = _candidates_per_step(run, n, sum(state.count - step + 1 for state in active))
        rows = run.generate_interleaved([_step_requests(run, state, step_planner, step, count) for state in active])
        for state, candidates in zip(active, rows, strict=True):
            if len(candidates) < n:
                too_few = f"{run.budget.nfe} NFE allow {count} of {n} candidates at step {step}"
                state.stop_reason = run.stop_reason or too_few
            candidates, survivors, reason = _best_beam(run, candidates, width if step < state.count else 1)
            state.candidates += candidates
            state.reason = f"step {step} of {state.count}: {reason}" if state.count > 1 else reason
            if survivors:
                paths = {path[-1].id if path else "": path for path in state.beam}
                state.beam = [(*paths[candidate.parent], candidate) for candidate in survivors]
            else:
                state.failure = state.reason
    return [_selection(run, state, n) for state in states]


def _step_requests(
    run: SelectionRun, state: _StepwiseState, step_planner: StepPlanner, step: int, count: int
) -> list[CandidateRequest]:
    requests = []
    for number in range(count):
        path = state.beam[number % len(state.beam)]
        editor_input, reward_input = step_planner(state.sample, path)
        try:
            run.check([reward_input], 0)
        except ValueError as error:
            hint = "fields about the final edit are passed at the last step only"
            raise ValueError(f"step {step} of {state.count}: {error} ({hint})") from None
        name, noise, parent = f"{step}.{number}", run.candidate_noise(number, step), path[-1].id if path else ""
        requests.append(CandidateRequest(name, editor_input, reward_input, noise, step, parent))
    return requests


def _best_beam(
    run: SelectionRun, candidates: Sequence[Candidate], width: int
) -> tuple[list[Candidate], list[Candidate], str]:
    """All candidates (see `SelectionRun.choose`), the best `width` with different images, and the best one's reason."""
    updated, chosen, reason = run.choose(candidates)
    by_id = {candidate.id: candidate for candidate in updated}
    remaining, _ = run.contenders(updated)
    survivors: list[str] = []
    while chosen is not None:
        survivors.append(chosen.id)
        picture = chosen.picture
        remaining = [candidate for candidate in remaining if candidate.picture != picture]
        if len(survivors) == width or not remaining:
            break
        remaining, chosen, _ = run.choose(remaining)
        by_id |= {candidate.id: candidate for candidate in remaining}
    return list(by_id.values()), [by_id[candidate_id] for candidate_id in survivors], reason


def _selection(run: SelectionRun, state: _StepwiseState, n: int) -> Selection:
    path = state.beam[0]
    return Selection(
        state.sample,
        None if state.failure else path[-1],
        state.failure or state.reason,
        tuple(state.candidates),
        run.full_cost(state.candidates, n * state.count),
        steps=path,
        stop_reason=state.stop_reason,
    )


def _candidates_per_step(run: SelectionRun, n: int, steps: int) -> int:
    """Candidates per step if the remaining budget is spread evenly over the remaining steps of all samples."""
    limit = run.budget.nfe
    if limit is None or not run.nfe_per_image:
        return n
    return min(n, max(1, (limit - run.spent.nfe) // (run.nfe_per_image * steps)))


def check_count(name: str, n: int) -> None:
    """Raise ValueError unless n is at least 1."""
    if n < 1:
        raise ValueError(f"{name} needs at least one candidate per step, got {n}")


@dataclass(frozen=True)
class BeamSearch:
    """`n` candidates per step in all, of which the best `width` with different images are kept.

    The candidates of a step continue the images of the step before round-robin, the best one first, so that a beam of
    any width costs as much as `SequentialEditing(n)`. `parent` is the candidate that a candidate continues; `steps` is
    the path to the winner. Everything else is as in `SequentialEditing`, which equals a `width` of 1.
    """

    width: int = 2
    n: int = 4

    def __post_init__(self) -> None:
        check_count(type(self).__name__, self.n)
        if not 1 <= self.width <= self.n:
            raise ValueError(f"a beam's width is from 1 to its {self.n} candidates per step, got {self.width}")

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        return run_stepwise(run, samples, compound_step, n=self.n, width=self.width)
