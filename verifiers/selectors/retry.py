"""Retry until accepted: edits are verified, and the reason for a rejection goes into the next instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...reward import BaseReward, EditSample, Score
from ..selection.candidate import Candidate, Selection
from ..selection.generation import CandidateRequest
from ..selection.selection_run import SelectionRun
from ..verifier import Decision, Verifier, VerifierLike, at_least

Feedback = Callable[[EditSample, Decision], str]
"""(rejected sample with its edited image and the original instruction, decision) -> the next one; deterministic."""


def append_rejection_reason(sample: EditSample, decision: Decision) -> str:
    """The instruction followed by the reason for the rejection; the instruction alone after "can't tell"."""
    if decision.answer != "reject":
        return sample.instruction
    instruction = sample.instruction.rstrip()
    stop = "" if instruction.endswith((".", "!", "?")) else "."
    return (
        f"{instruction}{stop} An earlier attempt was turned down: {decision.reason.rstrip('.')}. Avoid that this time."
    )


@dataclass(frozen=True)
class RetryUntilAccepted:
    """Generates candidates until the verifier accepts one, at most `max_attempts` per sample; all samples in step.

    The first accepted candidate wins, even over rejected ones with a higher reward. If none is accepted, the best by
    the reward is returned, and `reason` says so. "Can't tell" is not acceptance, and neither is acceptance of a
    candidate whose reward has no value. A guard of the run's reward overrules the verifier's acceptance. The verifier's
    scores are charged and journaled, and the scores of the run's own reward are reused.

    Args:
        verifier: Any verifier, or a threshold for the run's own reward.
        feedback: Makes the editor's next instruction after a candidate was not accepted; None repeats the instruction
            with another seed. Images are always scored by the original instruction.
    """

    verifier: VerifierLike | float
    max_attempts: int = 4
    feedback: Feedback | None = append_rejection_reason

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"retry needs at least one attempt, got {self.max_attempts}")

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        verifier: VerifierLike = (
            Verifier(run.reward, at_least(self.verifier)) if isinstance(self.verifier, int | float) else self.verifier
        )
        for reward in verifier.rewards:
            reward.validate(samples)
        states = [_RetryState(sample, sample.instruction) for sample in samples]
        decisions: dict[str, Decision] = {}

        def verify(candidates: list[Candidate]) -> list[Candidate]:
            return _verify_candidates(run, verifier, candidates, decisions)

        for number in range(self.max_attempts):
            pending = [state for state in states if state.accepted is None]
            candidates = run.generate([state.request(run, number) for state in pending], verify)
            for state, candidate in zip(pending, candidates, strict=False):
                decision = None if candidate.sample is None else decisions[candidate.sample.id]
                state.update(candidate, decision, self.feedback)
            if len(candidates) < len(pending):
                break
        return [state.selection(run, self.max_attempts) for state in states]


class _RetryState:
    def __init__(self, sample: EditSample, instruction: str) -> None:
        self.sample = sample
        self.instruction = instruction
        self.candidates: list[Candidate] = []
        self.notes: list[str] = []
        self.accepted: Candidate | None = None
        self.reason = ""

    def request(self, run: SelectionRun, number: int) -> CandidateRequest:
        return replace(
            run.request(self.sample, number), editor_input=replace(self.sample, instruction=self.instruction)
        )

    def update(self, candidate: Candidate, decision: Decision | None, feedback: Feedback | None) -> None:
        self.candidates.append(candidate)
        if decision is None or candidate.sample is None:
            self.notes.append(f"candidate {candidate.id}: {candidate.score.reason}")
            return
        if decision.accepted and candidate.score.rejected:
            decision = Decision("reject", candidate.score.reason, decision.scores)
        self.notes.append(f"candidate {candidate.id}: {decision.answer}: {decision.reason}")
        self.reason = decision.reason
        if decision.accepted and candidate.value is not None:
            self.accepted = candidate
        elif feedback is not None:
            self.instruction = feedback(candidate.sample, decision)

    def selection(self, run: SelectionRun, max_attempts: int) -> Selection:
        notes = tuple(self.notes)
        if self.accepted is None:
            selection = run.make_selection(self.sample, self.candidates, max_attempts, notes=notes)
            last = f" (the last time: {self.reason})" if self.reason else ""
            reason = f"none of {len(self.candidates)} attempts was accepted{last}; {selection.reason}"
            return replace(selection, reason=reason)
        reason = f"accepted at attempt {len(self.candidates)} of {max_attempts}: {self.reason}"
        cost = run.full_cost(self.candidates, max_attempts)
        return Selection(self.sample, self.accepted, reason, tuple(self.candidates), cost, notes=notes)


def _verify_candidates(
    run: SelectionRun, verifier: VerifierLike, candidates: Sequence[Candidate], decisions: dict[str, Decision]
) -> list[Candidate]:
    """The candidates with the added cost of verification; fills `decisions`, by sample id, for those with an image."""
    judged = {candidate.sample.id: candidate for candidate in candidates if candidate.sample is not None}
    cached: dict[tuple[BaseReward, str], Score] = {}

    def scoring(reward: BaseReward, samples: Sequence[EditSample]) -> list[Score]:
        uncached = [sample.id for sample in samples if (reward, sample.id) not in cached]
        for sample_id, (candidate, score) in zip(
            uncached, run.rescore(reward, [judged[sample_id] for sample_id in uncached]), strict=True
        ):
            judged[sample_id], cached[reward, sample_id] = candidate, score
        return [cached[reward, sample.id] for sample in samples]

    samples = [candidate.sample for candidate in candidates if candidate.sample is not None]
    decisions.update(zip((sample.id for sample in samples), verifier.decide(samples, scoring), strict=True))
    return [candidate if candidate.sample is None else judged[candidate.sample.id] for candidate in candidates]
