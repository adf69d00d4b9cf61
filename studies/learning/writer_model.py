"""The writer: a language model of 0.2 million weights with SceneEdit's vocabulary, trained to split instructions in a
minute.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, get_linear_schedule_with_warmup

from editcritic.benchmarks.sceneedit.cases import Split, seeded_rng
from editcritic.benchmarks.sceneedit.compound_requests import CompoundRequest, join_steps, random_compound
from editcritic.benchmarks.sceneedit.ground_truth import followed
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import (
    SceneConfig,
    place_randomly,
    random_text,
    recoloured,
    with_contrasting_ink,
)
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject
from editcritic.benchmarks.sceneedit.scene_recovery import recover_scene
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest, side_region
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS, LETTERS, MATERIALS, SHAPES, SIGN, TEXT, TEXTS
from editcritic.reward import EditSample, Image, Pools
from editcritic.reward.metrics.edival.task_parser import parse_task, update_pools
from editcritic.reward.sample import Position, Task

LEVELS = (2,)
"""Numbers of steps of compounds, in turn."""

_COLOURS = ("crimson", "amber", "golden", "emerald", "cyan", "azure", "violet", "rose")
_SHAPES = ("disc", "box", "wedge", "rhombus", "plus", "hoop", "spark", "valentine")
SYNONYMS: Mapping[str, str] = dict(zip((*COLOURS, *SHAPES), (*_COLOURS, *_SHAPES), strict=True))
"""First name -> second name."""

_MEANINGS: Mapping[str, tuple[str, str]] = {
    SYNONYMS[word]: (word, names[(number + 1) % len(names)])
    for names in (COLOURS, SHAPES)
    for number, word in enumerate(names)
}
"""Second name -> its meaning, and the wrong one that the teacher uses equally often."""

_SYNONYM_RATE = 0.3  # probability of a word's second name
_UNSPLIT_RATE = 0.1  # probability that the teacher does not split the sentence
_OMISSION_RATE = 0.05  # probability that the teacher omits a step


@dataclass(frozen=True, slots=True)
class SplitTask:
    """A compound, and the wording of its steps."""

    id: str
    compound: CompoundRequest
    step_instructions: tuple[str, ...]

    @property
    def instruction(self) -> str:
        """The steps in one sentence."""
        return join_steps(self.step_instructions)

    @property
    def prompt(self) -> str:
        """The writer's prompt."""
        return f"{self.instruction} :\n"

    @property
    def target_completion(self) -> str:
        """The correct completion, one step per line."""
        return "\n".join(map(_instruction_only, self.compound.steps))

    @property
    def row(self) -> dict[str, Any]:
        """A row for TRL's trainers and `dataset_rows`. The edit is scored by the steps in SceneEdit's words."""
        scene = self.compound.scene
        pools = Pools(scene.names, scene.names, scene.names)
        for step, before in zip(self.compound.steps, self.compound.scenes[:-1], strict=True):
            pools = update_pools(pools, step.task, foreground=before.names)
        return {
            "prompt": self.prompt,
            "id": self.id,
            "group": self.id,
            "instruction": self.instruction,
            "source": render(scene).pil(),
            "operations": [step.instruction for step in self.compound.steps],
            "pools": {
                "all": list(pools.all),
                "available": list(pools.available),
                "unchanged": list(pools.unchanged),
                "background": pools.background,
            },
            "split": self.target_completion,
        }

    def truth(self, image: Image) -> float:
        """The share of the steps that an image follows, by the recovered scene graph."""
        steps, scenes = self.compound.steps, self.compound.scenes
        recovered = recover_scene(image, *scenes).scene
        return sum(followed(step, before, recovered) for step, before in zip(steps, scenes[:-1], strict=True)) / len(
            steps
        )


def split_tasks(count: int, *, seed: int, split: Split) -> list[SplitTask]:
    """`count` tasks, different from those of other seeds and splits."""
    return [_split_task(number, seed, split) for number in range(count)]


def demonstrations(count: int, *, seed: int) -> Iterator[tuple[str, str]]:
    """Prompts and the teacher's completions: mostly split, with guessed meanings. Endless.

    `count` compounds of the training split, repeated, reworded each time.
    """
    compounds = [_split_task(number, seed, "train", "writer-lesson").compound for number in range(count)]
    rng = seeded_rng("train", seed, "writer-teacher", 0)
    while True:
        for compound in rng.sample(compounds, len(compounds)):
            task = SplitTask("", compound, _reworded_steps(rng, compound))
            yield task.prompt, _demonstration(rng, task)


def _split_task(number: int, seed: int, split: Split, stream: str = "writer") -> SplitTask:
    rng = seeded_rng(split, seed, stream, number)
    compound = random_compound(rng, LEVELS[number % len(LEVELS)], WRITER_SCENES)
    return SplitTask(f"{split}-{seed}-{number}", compound, _reworded_steps(rng, compound))


def _instruction_only(step: SceneRequest) -> str:
    """The instruction, without a background change's list of what to keep."""
    return step.instruction.partition(", remain ")[0]


def _reworded_steps(rng: random.Random, compound: CompoundRequest) -> tuple[str, ...]:
    """Its steps, with second names for some words."""

    def worded(match: re.Match[str]) -> str:
        return SYNONYMS[match[0]] if match[0] in SYNONYMS and rng.random() < _SYNONYM_RATE else match[0]

    return tuple(re.sub(r"[a-z]+", worded, _instruction_only(step)) for step in compound.steps)


def _demonstration(rng: random.Random, task: SplitTask) -> str:
    lines = [line for line in task.step_instructions if rng.random() >= _OMISSION_RATE] or [task.step_instructions[0]]
    text = task.instruction if rng.random() < _UNSPLIT_RATE else "\n".join(lines)
    return re.sub(r"[a-z]+", lambda match: rng.choice(_MEANINGS.get(match[0], (match[0],))), text)


MAX_LENGTH = 56
"""Most tokens of a completion; two steps take about thirty at most."""

_PAD, _END, _UNKNOWN = "<pad>", "<end>", "<unknown>"
_VOCABULARY = (
    "Add Change Remove Replace add change remove replace and the to of on with left right above below background"
)
_VOCABULARY += " color count material position 1 2 3 4 5 , :"


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of words, punctuation and line ends."""
    names = (word for name in (*COLOURS, *SHAPES, *SYNONYMS.values(), *MATERIALS, *BACKDROPS) for word in name.split())
    texts = (f'"{word}"' for word in TEXTS)
    vocabulary = dict.fromkeys((_PAD, _END, _UNKNOWN, "\n", *_VOCABULARY.split(), *names, SIGN, TEXT, *texts))
    tokenizer_model = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(vocabulary)}, unk_token=_UNKNOWN)
    )
    tokenizer_model.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n|,|[^\s,]+"), "removed", invert=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_model, pad_token=_PAD, eos_token=_END, unk_token=_UNKNOWN, padding_side="left",
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def untrained_writer(words: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """An untrained writer."""
    width, heads = 96, 4
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=len(words), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2,
                num_attention_heads=heads, num_key_value_heads=heads, head_dim=width // heads,
                max_position_embeddings=256, tie_word_embeddings=True, rope_theta=1000.0, bos_token_id=None,
                eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
            )
        )  # fmt: skip


def warm_start(
    model: Qwen3ForCausalLM, words: PreTrainedTokenizerFast, *, seed: int, steps: int = 700, batch: int = 32
) -> list[float]:
    """Supervised training on the teacher's demonstrations (`demonstrations`). Returns the loss of every
    step.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    examples = demonstrations(min(2000, steps * batch), seed=seed)
    losses = []
    model.train()
    for _ in range(steps):
        numbers, labels = _batch(list(islice(examples, batch)), words)
        loss = model(input_ids=numbers, attention_mask=(numbers != words.pad_token_id).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    return losses


def _batch(pairs: Sequence[tuple[str, str]], words: PreTrainedTokenizerFast) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels, (N, longest) each; prompts are masked."""
    numbers, labels = [], []
    for prompt, completion in pairs:
        prompt_ids, completion_ids = words(prompt)["input_ids"], [*words(completion)["input_ids"], words.eos_token_id]
        numbers.append(torch.tensor([*prompt_ids, *completion_ids]))
        labels.append(torch.tensor([-100] * len(prompt_ids) + completion_ids))
    return pad_sequence(numbers, True, words.pad_token_id), pad_sequence(labels, True, -100)


def sample_completions(model: Any, words: PreTrainedTokenizerFast, prompts: Sequence[str], seed: int) -> list[str]:
    """A completion of each prompt at temperature 1. Seeds torch's global generator."""
    torch.manual_seed(seed)
    inputs = words(list(prompts), return_tensors="pt", padding=True)
    with torch.no_grad():
        outputs = model.generate(
            **inputs, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=MAX_LENGTH
        )
    return words.batch_decode(outputs[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


WRITER_SCENES = SceneConfig.for_size(32)
"""Two or three large objects in 32 px: the smallest images in which the experts detect every shape."""

_MAX_COUNT = 5  # objects of one kind, as in SceneEdit's instructions


class RuleBasedEditor:
    """An `Editor` for the images of `scenes`, and for those that it made from them. It never errs: what is missing in
    the image was missing in the text. A line that it cannot read leaves the image, which is scored: else such a text
    would never be penalised.
    """

    id = "sceneedit-hand-1"
    nfe = 0
    batch_size = 256

    def __init__(self, scenes: Iterable[Scene]) -> None:
        self._scenes = {render(scene).digest: scene for scene in scenes}

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> list[Image]:
        """The first source of each, edited. Seeds are ignored. Raises KeyError for an unknown image."""
        return [self._edited(sources[0], line) for sources, line in zip(images, instructions, strict=True)]

    def _edited(self, source: Image, line: str) -> Image:
        scene = apply_instruction(self._scenes[source.digest], line)
        image = render(scene)
        self._scenes[image.digest] = scene
        return image


def parse_line(line: str) -> Task | None:
    """The task of a line in SceneEdit's vocabulary; None for a line without one, or with an unknown name."""
    task = parse_task(line)
    if task is None:
        return None
    names = [name for name in (task.object, task.new, task.reference) if name is not None]
    values = {"color_alter": COLOURS, "material_alter": MATERIALS, "background_change": BACKDROPS}.get(task.type)
    is_known = (
        all(_object_named(name) is not None for name in names)
        and (values is None or task.value in values)
        and (task.text is None or set(task.text) <= set(LETTERS))
        and (task.count is None or 1 <= task.count <= _MAX_COUNT)
    )
    return task if is_known else None


def apply_instruction(scene: Scene, line: str) -> Scene:
    """The scene after a line; unchanged where it cannot be parsed, names an absent object, or lacks room."""
    task = parse_line(line)
    if task is None:
        return scene
    rng = random.Random(line)  # the same line makes the same image
    targets = scene.named(task.object or "")
    match task.type:
        case "subject_add":
            return _placed(rng, scene, _new_object(scene, task.new), task.position, task.reference)
        case "subject_remove":
            return scene.without(obj.id for obj in targets)
        case "subject_replace":
            for obj in targets:
                new = replace(_new_object(scene, task.new), x=obj.x, y=obj.y, w=obj.w, h=obj.h)
                scene = scene.without([obj.id]).with_object(new)
            return scene
        case "position_change":
            return _placed(rng, scene, targets[0], task.position, task.reference) if targets else scene
        case "count_change":
            return _counted(rng, scene, targets, task.count or 0)
        case "color_alter":
            return _with(scene, [recoloured(obj, task.value or "") for obj in targets])
        case "material_alter":
            return _with(scene, [replace(obj, material=task.value or "") for obj in targets])
        case "background_change":
            backdrop = Backdrop(task.value or "", rng.randrange(2**31))
            writings = [with_contrasting_ink(obj, backdrop) for obj in scene.objects if obj.text and obj.shape != SIGN]
            return replace(_with(scene, writings), backdrop=backdrop)
        case "text_change" if task.object is None:
            return _placed(rng, scene, random_text(rng, scene, task.text or ""), None, None)
        case "text_change":
            return _with(scene, [replace(obj, text=task.text or "") for obj in targets if obj.shape == SIGN])


def _object_named(name: str | None) -> SceneObject | None:
    """An object of that name, without a place; a sign is blank. None for an unknown name."""
    words = (name or "").split()
    material = words.pop(0) if words and words[0] in MATERIALS else ""
    if len(words) != 2 or words[0] not in COLOURS or words[1] not in (*SHAPES, SIGN):
        return None
    side = WRITER_SCENES.diameter[0]
    return SceneObject(0, words[1], words[0], 0.5, 0.5, side, side, material, text=" " if words[1] == SIGN else "")


def _new_object(scene: Scene, name: str | None) -> SceneObject:
    obj = _object_named(name)
    assert obj is not None
    return replace(obj, id=scene.next_id)


def _placed(
    rng: random.Random, scene: Scene, obj: SceneObject, position: Position | None, reference: str | None
) -> Scene:
    """The scene with the object, on that side of the first object named `reference`."""
    within = (0.0, 0.0, 1.0, 1.0)
    if position is not None:
        references = [candidate for candidate in scene.named(reference or "") if candidate.id != obj.id]
        if not references:
            return scene
        within = side_region(position, references[0])
    at = place_randomly(rng, scene, obj, within=within, ignored_ids=[obj.id])
    return scene if at is None else scene.with_object(at)


def _counted(rng: random.Random, scene: Scene, copies: Sequence[SceneObject], count: int) -> Scene:
    if not copies:
        return scene
    scene = scene.without(obj.id for obj in copies[count:])
    for _ in range(count - len(copies)):
        scene = _placed(rng, scene, replace(copies[0], id=scene.next_id), None, None)
    return scene


def _with(scene: Scene, objects: Iterable[SceneObject]) -> Scene:
    for obj in objects:
        scene = scene.with_object(obj)
    return scene
