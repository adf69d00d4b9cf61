"""EdiVal-Agent, step 2: a chain of instructions, each based on the previous state (section 2.3, Alg. 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from .....reward import Image, Pools, Program, Task
from .....reward.metrics.edival.pools import renamed_object, update_pools
from .....reward.queries.prompts import Prompts
from .....reward.sample import TASK_TYPES, TaskType
from ...construction.validated_replies import ConstructionRejected, RejectionLog
from ...construction.workspace import PROMPTS
from .objects import Grounding, ListedObject, ground_objects, list_objects
from .tasks import TaskInstructionGenerator, instruction_of

MAX_COUNT = 10
"""Maximum target count."""


@dataclass(frozen=True, slots=True)
class ChainTurn:
    """One edit of a chain. format: the instruction with its slots in brackets. pools: after it."""

    task: Task
    format: str
    instruction: str
    pools: Pools


@dataclass(frozen=True, slots=True)
class InstructionChain:
    """The chain of one image. listed_objects: by the judge. grounded_objects: those confirmed by the detector."""

    listed_objects: tuple[ListedObject, ...]
    grounded_objects: tuple[ListedObject, ...]
    turns: tuple[ChainTurn, ...]


@dataclass(frozen=True)
class EdiValAgent:
    """turns: of a chain. counts: allowed target counts of count changes. types: allowed task types.

    Raises ValueError for invalid numbers.
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
        if not self.counts or not all(1 <= count <= MAX_COUNT for count in self.counts):
            raise ValueError(f"counts lie between 1 and {MAX_COUNT}, got {list(self.counts)}")
        if not self.types or (unknown := set(self.types) - set(TASK_TYPES)):
            raise ValueError(f"types are some of {', '.join(TASK_TYPES)}, got {sorted(unknown) or 'none'}")

    def program(self, image: Image) -> Callable[[RejectionLog], Program[InstructionChain]]:
        """The program that constructs a chain for an image; deterministic for image, seed and replies."""

        def run(notes: RejectionLog) -> Program[InstructionChain]:
            listed = yield from list_objects(notes, image, self.prompts)
            grounded = yield from ground_objects(notes, image, listed, self.grounding)
            turns = yield from self._turns(notes, image, grounded)
            return InstructionChain(listed, grounded, turns)

        return run

    def _turns(
        self, notes: RejectionLog, image: Image, objects: Sequence[ListedObject]
    ) -> Program[tuple[ChainTurn, ...]]:
        rng = Random(f"{self.seed} {image.digest}")  # depends on this image only
        names = tuple(obj.name for obj in objects)
        state = ChainState(Pools(names, names, names), {obj.name: obj for obj in objects})
        used: set[TaskType] = set()
        turns: list[ChainTurn] = []
        for number in range(1, self.turns + 1):
            generator = TaskInstructionGenerator(notes, image, self.prompts, rng, self.counts)
            task_type = self._type(rng, used, state)
            used.add(task_type)
            try:
                task, format_ = yield from generator.generate(task_type, state.available, state.pools.all)
            except ConstructionRejected as error:
                raise ConstructionRejected(f"turn {number}, {task_type}: {error}") from None
            state = state.apply(task)
            turns.append(ChainTurn(task, format_, instruction_of(task, format_), state.pools))
        return tuple(turns)

    def _type(self, rng: Random, used: set[TaskType], state: ChainState) -> TaskType:
        """`subject_add` without editable objects (section 2.3); else a sampled type that is new in the chain (any, once
        all are used), or `subject_add`, used or not, if that is infeasible (algorithm 2, line 6).

        The published file has 23 turns with no editable object before them: 19 add one, 4 change the background.
        """
        if not state.available:
            return "subject_add"
        if used.issuperset(self.types):
            used.clear()
        sampled = rng.choice([task_type for task_type in self.types if task_type not in used])
        return sampled if is_feasible(sampled, state.available, self.counts) else "subject_add"


@dataclass(frozen=True, slots=True)
class ChainState:
    """The state of a chain. objects: attributes of each editable object."""

    pools: Pools
    objects: Mapping[str, ListedObject]

    @property
    def available(self) -> tuple[ListedObject, ...]:
        return tuple(self.objects[name] for name in self.pools.available)

    def apply(self, task: Task) -> ChainState:
        """The state after an edit: pools by the rules of the published file, and updated attributes of the object."""
        pools = update_pools(self.pools, task)
        objects = dict(self.objects)
        target = objects.get(task.object or "")
        match task.type:
            case "subject_add" if task.new is not None:
                objects[task.new] = ListedObject(task.new, task.new)
            case "subject_replace" if task.new is not None and target is not None:
                objects[task.new] = ListedObject(task.new, task.new, foreground=target.foreground, count=target.count)
            case "color_alter" if target is not None:
                objects[renamed_object(task)] = replace(target, name=renamed_object(task), color=task.value)
            case "material_alter" if target is not None:
                objects[renamed_object(task)] = replace(target, name=renamed_object(task), material=task.value)
            case "count_change" if target is not None and task.count is not None:
                objects[target.name] = replace(target, count=task.count)
            case "text_change" if target is not None:
                objects[target.name] = replace(target, text=task.text)
        return ChainState(pools, objects)


def is_feasible(task_type: TaskType, available: Sequence[ListedObject], counts: Sequence[int]) -> bool:
    """Whether an edit of that type is possible with these objects."""
    match task_type:
        case "subject_add" | "background_change" | "text_change":
            return True
        case "position_change":
            return len(available) >= 2
        case "count_change":
            return any(count != obj.count for obj in available for count in counts)
        case _:
            return bool(available)
