"""Step by step: a compound instruction taken apart, or the turns of a chain, with a choice after each step.

Complex-Edit (arXiv 2504.13143), section 5.4: of several candidates a step the best one goes on. Chains are those of
EdiVal (ICLR 2026), section 2. The steps of all samples are made together, in batches.

The choice is greedy: more candidates never lower the value of the first step, and may lower that of the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..reward import EditSample, Image, Operation
from ..reward.compound import unfolded
from ..reward.edival.pools import pools_of
from .candidate import Candidate, Selection
from .making import Want
from .run import Run

Path = tuple[Candidate, ...]
"""What was chosen so far, a candidate a step."""

Plan = Callable[[EditSample, Path], tuple[EditSample, EditSample]]
"""What the editor is told, and what the reward is told, of the step after these."""


@dataclass(frozen=True)
class Sequential:
    """A compound instruction, one of its `operations` a step: `n` candidates a step, of which the best goes on.

    Step k edits the best picture of step k-1 by the instruction of operation k. A candidate is judged as an edit of the
    *original* picture by T_k, the compound instruction of the first k operations: the sample's own at the last step,
    `metadata["compounds"]` (T_1, T_2, … as Complex-Edit publishes them, the last one may be missing) where it is there,
    else the operations' instructions joined. What the sample says of the finished edit (task, reference, targets, text,
    hint, dimensions) is told to the reward at the last step only. The object pools of a step follow from boxes and
    operations; where they do not, what the finished edit leaves unchanged has to be unchanged at every step.

    `n=1` is plain sequential editing. A sample without operations takes one step. Where no candidate of a step has a
    score, there is no winner, and `steps` has what was chosen until then. A budget of evaluations is spread evenly over
    the steps, and must allow one candidate for each; one of judge calls or seconds can end before the last step, and
    then there is no winner either.
    """

    n: int = 4

    def __post_init__(self) -> None:
        check_count(type(self).__name__, self.n)

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        return walk(run, samples, compound_step, n=self.n)


@dataclass(frozen=True)
class Chain:
    """A chain of turns, each an edit of its own: `n` candidates a turn, of which the best goes on.

    The turns are the sample's `operations`. A candidate of turn t is judged as an edit of what was chosen at turn t-1,
    by the instruction and task of turn t, with the turns before it as `earlier` and the object pools after it, which
    begin with the names of the sample's boxes (pools without boxes: as in `Sequential`). The editor is given `earlier`
    as well. What the sample says of the finished edit (reference, text, hint) is told to the reward at the last turn
    only; targets and dimensions, which are of one instruction, never.

    Where no candidate of a turn has a score and where the budget ends: as in `Sequential`.
    """

    n: int = 4

    def __post_init__(self) -> None:
        check_count(type(self).__name__, self.n)

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        return walk(run, samples, turn_step, n=self.n)


# -- what a step is ---------------------------------------------------------------------------------------------------


def compound_step(sample: EditSample, path: Path) -> tuple[EditSample, EditSample]:
    """The next operation on the last picture; judged as all operations until then, on the original picture."""
    operations, step = operations_of(sample), len(path) + 1
    sources = _sources(sample, path)
    asked = replace(
        sample,
        instruction=operations[step - 1].instruction,
        sources=sources,
        edited=sources[0],
        group="",
        operations=(),
    )
    if step == len(operations):
        return asked, sample
    judged = replace(
        sample,
        instruction=compound(sample, step),
        group="",
        operations=operations[:step],
        task=operations[0].task if step == 1 else None,
        pools=None,
        reference=None,
        targets=(),
        text="",
        hint="",
        dimensions=None,
    )  # the mask stays: what the finished edit may not touch, none of its steps may
    return asked, replace(judged, pools=pools_of(unfolded(judged)) or sample.pools)


def turn_step(sample: EditSample, path: Path) -> tuple[EditSample, EditSample]:
    """The next turn; the reward and the editor are told the same."""
    operations, step = operations_of(sample), len(path) + 1
    last = step == len(operations)
    sources = _sources(sample, path)
    turn = replace(
        sample,
        instruction=operations[step - 1].instruction,
        sources=sources,
        edited=sources[0],
        group="",
        task=operations[step - 1].task,
        pools=sample.pools if last else None,
        reference=sample.reference if last else None,
        operations=(),
        targets=(),
        text=sample.text if last else "",
        hint=sample.hint if last else "",
        dimensions=None,
        earlier=(*sample.earlier, *(one.sample for one in path if one.sample is not None)),
    )
    turn = replace(turn, pools=pools_of(turn) or sample.pools)
    return turn, turn


def operations_of(sample: EditSample) -> tuple[Operation, ...]:
    """The sample's operations; its own instruction where it has none."""
    return sample.operations or (Operation(sample.instruction, task=sample.task),)


def compound(sample: EditSample, step: int) -> str:
    """T_k: the instruction that asks for the first `step` operations, fewer than all. Raises ValueError."""
    given = sample.metadata.get("compounds")
    if given is None:
        return joined([operation.instruction for operation in sample.operations[:step]])
    needed = len(sample.operations) - 1
    if isinstance(given, str) or len(given) < needed or not all(isinstance(one, str) and one for one in given):
        raise ValueError(
            f"sample {sample.id!r}: metadata['compounds'] is an instruction a step, at least {needed} of them for "
            f"{needed + 1} operations, got {given!r:.200}"
        )
    found: str = given[step - 1]
    return found


def joined(instructions: Sequence[str]) -> str:
    """Several instructions as one sentence: `Remove the cat, add a red ball, and make it night`."""
    said = [instruction.strip().rstrip(".").rstrip() for instruction in instructions]
    said = [said[0], *(one if one[:2].isupper() else one[:1].lower() + one[1:] for one in said[1:])]
    if len(said) <= 2:
        return " and ".join(said)
    return ", ".join(said[:-1]) + f", and {said[-1]}"


def _sources(sample: EditSample, path: Path) -> tuple[Image, ...]:
    """The last picture in the place of the first source; the other sources stay what they are."""
    picture = path[-1].picture if path else None
    return sample.sources if picture is None else (picture, *sample.sources[1:])


# -- going step by step -----------------------------------------------------------------------------------------------


@dataclass
class _Walk:
    """One sample on its way. beam: the paths that go on. stuck: why none of them does."""

    sample: EditSample
    beam: list[Path] = field(default_factory=lambda: [()])
    made: list[Candidate] = field(default_factory=list)
    why: str = ""
    stuck: str = ""
    ended: str = ""

    @property
    def count(self) -> int:
        """Steps there are."""
        return len(operations_of(self.sample))


def walk(run: Run, samples: Sequence[EditSample], plan: Plan, *, n: int, width: int = 1) -> list[Selection]:
    """`n` candidates a step in all, those of the best `width` of the step before in turn; the best of the last step.

    Raises ValueError before anything is made where the budget does not allow one candidate a step.
    """
    walks = [_Walk(sample) for sample in samples]
    _check(run, walks)
    for step in range(1, max((one.count for one in walks), default=0) + 1):
        going = [one for one in walks if step <= one.count and not one.stuck]
        allowed = _allowed(run, n, sum(one.count - step + 1 for one in going))
        found = run.rounds([_wants(run, one, plan, step, allowed) for one in going])
        for one, candidates in zip(going, found, strict=True):
            if len(candidates) < n:
                few = f"{run.budget.evaluations} evaluations allow {allowed} of {n} candidates at step {step}"
                one.ended = run.ended or few
            candidates, kept, why = _best(run, candidates, width if step < one.count else 1)
            one.made += candidates
            one.why = f"step {step} of {one.count}: {why}" if one.count > 1 else why
            if kept:
                before = {path[-1].id if path else "": path for path in one.beam}
                one.beam = [(*before[candidate.parent], candidate) for candidate in kept]
            else:
                one.stuck = one.why
    return [_selection(run, one, n) for one in walks]


def _wants(run: Run, walk: _Walk, plan: Plan, step: int, count: int) -> list[Want]:
    found = []
    for number in range(count):
        path = walk.beam[number % len(walk.beam)]
        asked, judged = plan(walk.sample, path)
        try:
            run.check([judged], 0)
        except ValueError as error:
            why = f"step {step} of {walk.count}: {error} (what is said of the finished edit is told at the last step)"
            raise ValueError(why) from None
        parent = path[-1].id if path else ""
        found.append(Want(f"{step}.{number}", asked, judged, run.noise(number, step), step, parent))
    return found


def _best(run: Run, candidates: Sequence[Candidate], width: int) -> tuple[list[Candidate], list[Candidate], str]:
    """The candidates again (see `Run.best`), the best `width` of them with different pictures, and why the first."""
    rest, chosen, why = run.best(candidates)
    found = {one.id: one for one in rest}
    kept: list[str] = []
    while chosen is not None:
        kept.append(chosen.id)
        same = chosen.picture
        rest = [one for one in rest if one.value is not None and one.picture != same]
        if len(kept) == width or not rest:
            break
        rest, chosen, _ = run.best(rest)
        found |= {one.id: one for one in rest}
    return list(found.values()), [found[name] for name in kept], why


def _selection(run: Run, walk: _Walk, n: int) -> Selection:
    best = walk.beam[0]
    return Selection(
        walk.sample,
        None if walk.stuck else best[-1],
        walk.stuck or walk.why,
        tuple(walk.made),
        run.unpruned(walk.made, n * walk.count),
        steps=best,
        ended=walk.ended,
    )


def _check(run: Run, walks: Sequence[_Walk]) -> None:
    needed, limit = run.steps * sum(one.count for one in walks), run.budget.evaluations
    if limit is not None and limit < needed:
        raise ValueError(
            f"a budget of {limit} denoiser evaluations is too small: one candidate for each of "
            f"{sum(one.count for one in walks)} steps takes {needed}"
        )


def _allowed(run: Run, n: int, steps: int) -> int:
    """Candidates of each of the steps that are still to be made, of all samples, where all of them get the same."""
    limit = run.budget.evaluations
    if limit is None or not run.steps:
        return n
    return min(n, max(1, (limit - run.spent.evaluations) // (run.steps * steps)))


def check_count(name: str, n: int) -> None:
    """Raise ValueError for no candidates."""
    if n < 1:
        raise ValueError(f"{name} takes one candidate a step or more, got {n}")
