"""EdiVal-Agent, step 2: a chain of instructions, each about what the ones before it have left (section 2.3, Alg. 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from ...reward import Asks, Image, Pools, Task
from ...reward.edival.pools import apply, renamed
from ...reward.prompts import Prompts
from ...reward.sample import TASK_TYPES, TaskType
from .asking import Notes, Rejected
from .edival_objects import Grounding, Thing, grounded, listed
from .edival_tasks import Asker, instruction_of
from .given import PROMPTS

MOST = 10
"""Of the counts that are asked for."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One edit of a chain. format: the instruction with its slots in brackets. pools: after it."""

    task: Task
    format: str
    instruction: str
    pools: Pools


@dataclass(frozen=True, slots=True)
class Chain:
    """What was made of one picture. listed: what the judge saw. things: what of it the detector finds."""

    listed: tuple[Thing, ...]
    things: tuple[Thing, ...]
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Agent:
    """turns: of a chain. counts: what the number of an object may be changed to. types: of edits, to choose from.

    Raises ValueError for numbers that make no sense.
    """

    turns: int = 3
    seed: int = 0
    counts: tuple[int, ...] = (3, 4, 5)
    types: tuple[TaskType, ...] = TASK_TYPES
    grounding: Grounding = field(default_factory=Grounding)
    prompts: Prompts = PROMPTS

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise ValueError(f"a chain has at least one turn, got {self.turns}")
        if not self.counts or not all(1 <= count <= MOST for count in self.counts):
            raise ValueError(f"counts lie between 1 and {MOST}, got {list(self.counts)}")
        if not self.types or (unknown := set(self.types) - set(TASK_TYPES)):
            raise ValueError(f"types are some of {', '.join(TASK_TYPES)}, got {sorted(unknown) or 'none'}")

    def program(self, image: Image) -> Callable[[Notes], Asks[Chain]]:
        """What makes a chain for a picture; the same for the same picture, seed and answers."""

        def run(notes: Notes) -> Asks[Chain]:
            everything = yield from listed(notes, image, self.prompts)
            things = yield from grounded(notes, image, everything, self.grounding)
            turns = yield from self._turns(notes, image, things)
            return Chain(everything, things, turns)

        return run

    def _turns(self, notes: Notes, image: Image, things: Sequence[Thing]) -> Asks[tuple[Turn, ...]]:
        chance = Random(f"{self.seed} {image.digest}")  # of the picture: others do not move it
        names = tuple(thing.name for thing in things)
        state = State(Pools(names, names, names), {thing.name: thing for thing in things})
        used: set[TaskType] = set()
        turns: list[Turn] = []
        for number in range(1, self.turns + 1):
            asker = Asker(notes, image, self.prompts, chance, self.counts)
            kind = self._type(chance, used, state)
            used.add(kind)
            try:
                task, format_ = yield from asker.ask(kind, state.available, state.pools.all)
            except Rejected as error:
                raise Rejected(f"turn {number}, {kind}: {error}") from None
            state = state.after(task)
            turns.append(Turn(task, format_, instruction_of(task, format_), state.pools))
        return tuple(turns)

    def _type(self, chance: Random, used: set[TaskType], state: State) -> TaskType:
        """A type that is new in the chain (any, once all are used up); adding an object where it cannot be done.

        Where adding is used up too, the next type in the drawn order that can be done.
        """
        if used.issuperset(self.types):
            used.clear()
        drawn = [kind for kind in self.types if kind not in used]
        chance.shuffle(drawn)
        first = drawn[0]
        if feasible(first, state.available, self.counts):
            return first
        if "subject_add" not in used:
            return "subject_add"
        return next((kind for kind in drawn if feasible(kind, state.available, self.counts)), "subject_add")


@dataclass(frozen=True, slots=True)
class State:
    """Where a chain stands. things: what is known of each object that can be edited."""

    pools: Pools
    things: Mapping[str, Thing]

    @property
    def available(self) -> tuple[Thing, ...]:
        return tuple(self.things[name] for name in self.pools.available)

    def after(self, task: Task) -> State:
        """The state after an edit: pools by the rules of the published file, and what is known of what it touched."""
        pools = apply(self.pools, task)
        things = dict(self.things)
        known = things.get(task.object or "")
        match task.type:
            case "subject_add" if task.new is not None:
                things[task.new] = Thing(task.new, task.new)
            case "subject_replace" if task.new is not None and known is not None:
                things[task.new] = Thing(task.new, task.new, foreground=known.foreground, count=known.count)
            case "color_alter" if known is not None:
                things[renamed(task)] = replace(known, name=renamed(task), color=task.value)
            case "material_alter" if known is not None:
                things[renamed(task)] = replace(known, name=renamed(task), material=task.value)
            case "count_change" if known is not None and task.count is not None:
                things[known.name] = replace(known, count=task.count)
            case "text_change" if known is not None:
                things[known.name] = replace(known, text=task.text)
        return State(pools, things)


def feasible(kind: TaskType, available: Sequence[Thing], counts: Sequence[int]) -> bool:
    """Whether an edit of that type can be asked for with these objects."""
    match kind:
        case "subject_add" | "background_change" | "text_change":
            return True
        case "position_change":
            return len(available) >= 2
        case "count_change":
            return any(count != thing.count for thing in available for count in counts)
        case _:
            return bool(available)
