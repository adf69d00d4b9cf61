"""Retry until accepted: an edit is verified, and what was wrong with it goes into the next instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..reward import AnyReward, EditSample, Score
from .candidate import Candidate, Selection
from .making import Want
from .run import Run
from .verifier import Decides, Decision, Verifier, at_least

Feedback = Callable[[EditSample, Decision], str]
"""The next instruction, of the sample that was rejected (with its picture, and its own instruction) and the decision.
The same for the same, or a journal is of no use.
"""


def restated(sample: EditSample, decision: Decision) -> str:
    """The instruction, and behind it what was wrong the last time; the instruction alone where nobody could tell."""
    if decision.answer != "reject":
        return sample.instruction
    told = sample.instruction.rstrip()
    stop = "" if told.endswith((".", "!", "?")) else "."
    return f"{told}{stop} An earlier attempt was turned down: {decision.reason.rstrip('.')}. Avoid that this time."


@dataclass(frozen=True)
class RetryUntil:
    """Makes a candidate a sample until the verifier accepts one, at most `tries`; all samples in step.

    verifier: any, or a number that the run's own reward has to reach. feedback: what the editor is told after a
    candidate was not accepted; None: the same again, from another seed. Whatever it is told, its pictures are judged
    by the original instruction.

    The first one accepted wins, also over rejected ones that the reward thinks better of. If none is, the best by the
    reward is returned, and `why` says so. Can't tell is not acceptance, and neither is acceptance of what the reward
    has no value for. What the verifier asks is paid and journaled like scores, and nothing is asked twice that the
    run's own reward was asked.
    """

    verifier: Decides | float
    tries: int = 4
    feedback: Feedback | None = restated

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise ValueError(f"retrying takes one try or more, got {self.tries}")

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        given = self.verifier
        verifier = Verifier(run.reward, at_least(given)) if isinstance(given, int | float) else given
        for reward in verifier.rewards:
            reward.check(samples)
        worked = [_Worked(sample, sample.instruction) for sample in samples]
        decisions: dict[str, Decision] = {}

        def verified(made: list[Candidate]) -> list[Candidate]:
            return _verified(run, verifier, made, decisions)

        for number in range(self.tries):
            waiting = [one for one in worked if one.accepted is None]
            made = run.candidates([one.want(run, number) for one in waiting], verified)
            for one, candidate in zip(waiting, made, strict=False):
                decision = None if candidate.sample is None else decisions[candidate.sample.id]
                one.learn(candidate, decision, self.feedback)
            if len(made) < len(waiting):
                break
        return [one.selection(run, self.tries) for one in worked]


class _Worked:
    """A sample on its way: what has been made of it and what was said about that."""

    def __init__(self, sample: EditSample, instruction: str) -> None:
        self.sample = sample
        self.instruction = instruction
        self.candidates: list[Candidate] = []
        self.notes: list[str] = []
        self.accepted: Candidate | None = None
        self.reason = ""

    def want(self, run: Run, number: int) -> Want:
        return replace(run.want(self.sample, number), asked=replace(self.sample, instruction=self.instruction))

    def learn(self, candidate: Candidate, decision: Decision | None, feedback: Feedback | None) -> None:
        self.candidates.append(candidate)
        if decision is None or candidate.sample is None:
            self.notes.append(f"candidate {candidate.id}: {candidate.score.reason}")
            return
        self.notes.append(f"candidate {candidate.id}: {decision.answer}: {decision.reason}")
        self.reason = decision.reason
        if decision.accepted and candidate.value is not None:
            self.accepted = candidate
        elif feedback is not None:
            self.instruction = feedback(candidate.sample, decision)

    def selection(self, run: Run, tries: int) -> Selection:
        notes = tuple(self.notes)
        if self.accepted is None:
            found = run.selection(self.sample, self.candidates, tries, notes=notes)
            last = f" (the last time: {self.reason})" if self.reason else ""
            return replace(found, why=f"nothing was accepted, tries: {len(self.candidates)}{last}; {found.why}")
        why = f"accepted at try {len(self.candidates)} of {tries}: {self.reason}"
        return Selection(
            self.sample, self.accepted, why, tuple(self.candidates), run.unpruned(self.candidates, tries), notes=notes
        )


def _verified(
    run: Run, verifier: Decides, made: Sequence[Candidate], decisions: dict[str, Decision]
) -> list[Candidate]:
    """The candidates again, with what it cost to verify those that have a picture; `decisions` are by sample id."""
    judged = {one.sample.id: one for one in made if one.sample is not None}
    known: dict[tuple[AnyReward, str], Score] = {}

    def scoring(reward: AnyReward, samples: Sequence[EditSample]) -> list[Score]:
        new = [sample.id for sample in samples if (reward, sample.id) not in known]
        for name, (candidate, score) in zip(new, run.second_look(reward, [judged[name] for name in new]), strict=True):
            judged[name], known[reward, name] = candidate, score
        return [known[reward, sample.id] for sample in samples]

    samples = [one.sample for one in made if one.sample is not None]
    decisions.update(zip((sample.id for sample in samples), verifier.decide(samples, scoring), strict=True))
    return [one if one.sample is None else judged[one.sample.id] for one in made]
