"""Images that a policy edits with tools: by hand, and in real trainers whose policy says what a script has it say."""

import inspect
import json
import pickle
import socket
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.integrations.dataset_rows import sample_from_row
from editcritic.integrations.trl.editing_environment import EditingEnvironment, EditingEnvironments, describe_changes
from editcritic.reward import EditSample, Image
from editcritic.verifiers.selection import EditorError

from ...tiny_language_model import tiny_language_model
from ...verifiers.numpy_editor import Painter, graded, judge, read, scenes
from ..trl_runs import half_known, sample_of


def row(**columns):
    (scene,) = scenes(1)
    return {"instruction": "make it blue", "source": scene.source.pil()} | columns


def begun(world: EditingEnvironments, **columns: Any) -> EditingEnvironment:
    environment = world()
    environment.reset(**row(**columns))
    return environment


def rewards_of(world, *environments, **given):
    count = len(environments)
    return world.reward([""] * count, [""] * count, environments=list(environments), **given)


def ask_closed_port() -> None:
    """What happens to a client of an editor whose server is gone."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    urllib.request.urlopen(f"http://127.0.0.1:{port}/edit", timeout=5)


def ask_late_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        urllib.request.urlopen(f"http://127.0.0.1:{server.getsockname()[1]}/edit", timeout=0.05)


def run_out_of_memory() -> None:
    raise torch.OutOfMemoryError("no memory left")


DOWN = {"gone": ask_closed_port, "late": ask_late_server, "full": run_out_of_memory}


class Choosy(Painter):
    """Paints everything but what is forbidden, and is down for some instructions."""

    def edit(self, images, instructions, seeds, *, history=None):
        if any("forbidden" in words for words in instructions):
            raise RuntimeError("out of paint")
        for words in instructions:
            DOWN.get(words, lambda: None)()
        return super().edit(images, instructions, seeds, history=history)


def test_edits_follow_each_other_and_are_taken_back():
    painter = Painter()
    world = EditingEnvironments(graded(), editor=painter)
    environment = begun(world)
    environment.edit(" wash ")
    washed = environment.sample.edited
    environment.edit("dry")
    assert painter.requests == [("wash", 0), ("dry", 0)]
    assert [environment.sample.edited] == Painter().edit([(washed,)], ["dry"], [0])
    assert environment.instructions == ("wash", "dry")
    assert '"dry"' in environment.undo()
    assert environment.sample.edited == washed
    assert list(environment.instructions) == ["wash"]
    environment.undo()
    assert environment.sample.edited == environment.sample.source
    assert "Nothing was undone" in environment.undo()
    assert environment.counts == {"edits": 2, "edits/undone": 2, "edits/failed": 0}


def test_the_row_says_by_what_the_picture_is_judged():
    world = EditingEnvironments(graded(), editor=Painter())
    first, second = begun(world), begun(world)
    first.edit("paint it blue")
    values = rewards_of(world, first, second)
    assert values == [read(first.sample.edited), read(second.sample.source)]
    rollouts = world.reward.rollouts(["p", "q"], [first, second])
    assert {sample_of(each).instruction for each in rollouts} == {"make it blue"}
    assert [(each.instructions, each.prompt) for each in rollouts] == [(("paint it blue",), "p"), ((), "q")]
    assert len({sample_of(each).id for each in rollouts}) == 2
    assert len({sample_of(each).group for each in rollouts}) == 1


def test_the_editor_is_told_of_other_sources_and_of_earlier_turns():
    def chained(row):
        sample = sample_from_row(row)
        return replace(sample, history=(replace(sample, instruction=row["before"]),))

    world = EditingEnvironments(graded(), editor=Painter(), to_sample=chained)
    pictures = [scene.source for scene in scenes(3)]
    images = []
    for before, other in (("red", 1), ("green", 1), ("green", 2)):
        environment = begun(world, before=before, source=None, sources=[pictures[0], pictures[other]])
        environment.edit("wash")
        sample = environment.sample
        images += Painter().edit([(pictures[0], pictures[other])], ["wash"], [0], history=[sample.history])
        assert sample.edited == images[-1]
    assert len(set(images)) == 3


def test_the_same_words_on_the_same_picture_are_one_edit_a_round():
    painter = Painter()
    world = EditingEnvironments(graded(), editor=painter, seed=100)
    group = [begun(world) for _ in range(4)]
    for environment in group:
        environment.edit("wash")
    group[0].edit("dry")
    group[1].edit("dry")
    group[1].undo()
    group[1].edit("dry")
    assert painter.requests == [("wash", 100), ("dry", 100)]
    assert group[0].sample.edited == group[1].sample.edited != group[2].sample.edited == group[3].sample.edited

    rewards_of(world, *group)
    again = begun(world)
    again.edit("wash")
    assert painter.requests[2:] == [("wash", 101)]
    rewards_of(world, again, trainer_state=transformers.TrainerState(global_step=7))
    begun(world).edit("wash")
    assert painter.requests[3:] == [("wash", 108)]


def test_edits_run_out_and_the_policy_knows():
    painter = Painter()
    world = EditingEnvironments(graded(), editor=painter, max_edits=2)
    environment = world()
    assert "You can ask for 2 edits." in environment.reset(**row())
    assert "1 more edit." in environment.edit("wash")
    environment.undo()
    assert "no more edits" in environment.edit("dry")
    assert "Nothing was edited" in environment.edit("fold")
    assert painter.requests == [("wash", 0), ("dry", 0)]
    assert environment.instructions == ("dry",)
    with pytest.raises(ValueError, match="max_edits must be at least 1, got 0"):
        EditingEnvironments(graded(), editor=painter, max_edits=0)


@pytest.mark.parametrize("words", ["", " \n", 5, None, ["wash"], "x" * 4001])
def test_an_instruction_that_is_none_or_too_long_is_said_and_leaves_the_picture(words):
    painter = Painter()
    environment = begun(EditingEnvironments(graded(), editor=painter))
    reply = environment.edit(words)
    too_long = isinstance(words, str) and len(words) > 4000
    said = "The picture stays as it was: the instruction has 4,001 characters" if too_long else "Nothing was edited"
    assert said in reply
    assert (painter.calls, environment.counts["edits"], environment.counts["edits/failed"]) == (
        [],
        int(too_long),
        int(too_long),
    )


SAID = st.sampled_from(["forbidden", "", None, 7, "\ud800", "wash", "dry"])


@settings(max_examples=60, deadline=None)
@given(calls=st.lists(st.tuples(st.sampled_from(["edit", "undo", "look"]), SAID), max_size=8), limit=st.integers(1, 3))
def test_whatever_a_policy_does_it_is_scored_by_the_picture_that_stands(calls, limit):
    world = EditingEnvironments(graded(), editor=Choosy(), max_edits=limit)
    environment, other = begun(world), begun(world)
    stack = [environment.sample.source]
    for tool, words in calls:
        result = getattr(environment, tool)(*([words] if tool == "edit" else []))
        if result.startswith("The picture was edited"):
            stack.append(environment.sample.edited)
        elif result.startswith("Undone"):
            stack.pop()
    other.edit("fold")  # an image that the editor makes
    assert environment.sample.edited == stack[-1]
    assert rewards_of(world, environment, other) == [read(stack[-1]), read(other.sample.edited)]


@pytest.mark.parametrize("how", DOWN)
def test_only_an_editor_that_is_down_leaves_a_rollout_unscored(how):
    world = EditingEnvironments(graded(), editor=Choosy())
    environment = begun(world)
    texts: dict[str, list[str]] = {}
    environment.edit("wash")
    washed = environment.sample.edited
    assert "The picture stays as it was" in environment.edit(how)
    environment.look()
    assert environment.sample.edited == washed
    assert rewards_of(world, environment, log_extra=texts.__setitem__) == [None]
    assert "the editor failed" in texts["graded/reason"][0]

    environment.undo()  # the policy has chosen another picture
    assert rewards_of(world, environment) == [read(environment.sample.source)]
    environment.edit(how)
    environment.edit("dry")
    assert rewards_of(world, environment) == [read(environment.sample.edited)]


def test_only_an_editor_that_makes_nothing_ends_the_training():
    world = EditingEnvironments(graded(), editor=Choosy())
    environments = [begun(world) for _ in range(4)]
    for number, environment in enumerate(environments[:3]):
        assert "out of paint" in environment.edit(f"forbidden {number}")
    environments[3].edit("wash")
    assert rewards_of(world, *environments) == [read(environment.sample.edited) for environment in environments]
    world = EditingEnvironments(graded(), editor=Painter(broken=True))
    environments = [begun(world) for _ in range(3)]
    for environment in environments[:2] * 2:
        assert "no paint" in environment.edit("wash")  # one failure, however many ask for it
    assert rewards_of(world, *environments) == [read(environments[0].sample.source)] * 3
    for number, environment in enumerate(environments):
        assert "no paint" in environment.edit(f"wash {number}")
    with pytest.raises(EditorError, match="no paint"):
        rewards_of(world, *environments)


@pytest.mark.parametrize(("abstained", "expected"), [("lowest", 0.0), ("exclude", None)])
def test_a_picture_that_cannot_be_judged_has_the_lowest_value_unless_it_is_excluded(abstained, expected):
    world = EditingEnvironments(graded(judge(rule=half_known)), editor=Painter(), abstained=abstained)
    environments = [begun(world) for _ in range(8)]
    for number, environment in enumerate(environments):
        environment.edit(f"try {number}")
    values = rewards_of(world, *environments)
    known = [read(environment.sample.edited) for environment in environments]
    assert {value < 0.5 for value in known} == {True, False}
    assert values == [value if value < 0.5 else expected for value in known]


def test_looking_says_what_was_done_and_what_is_to_be_seen():
    environment = begun(EditingEnvironments(graded(), editor=Painter()))
    assert environment.look() == "This is the original picture. It is 8 x 8 pixels and looks like the original."
    environment.edit("wash")
    environment.edit("dry")
    assert str(environment.look()).startswith("This is the picture after 1. wash; 2. dry. It is 8 x 8 pixels, and ")
    environment = begun(EditingEnvironments(graded(), editor=Painter(), image_observations=True))
    environment.edit("wash")
    shown = environment.look()
    assert isinstance(shown, list)
    assert Image.of(shown[0]["image"]) == environment.sample.edited
    assert shown[1]["text"].startswith("This is the picture after 1. wash.")


def test_words_about_a_picture_say_where_it_differs():
    before = np.zeros((20, 40, 3), np.uint8)
    after = before + np.uint8(10)  # hardly visible
    after[10:20, 30:40] = 200
    sample = EditSample("s", "edit", (Image.of(before),), Image.of(after))
    assert describe_changes(sample) == (
        "It is 40 x 20 pixels, and 12% of them differ from the original, most of these at 76-99 % of the width from "
        "the left and 52-98 % of the height from the top."
    )
    smaller = EditSample("s", "edit", (Image.of(before),), Image.of(after[:10]))
    assert describe_changes(smaller) == "It is 40 x 10 pixels, the original 40 x 20."


def test_what_the_reward_goes_by_is_not_shown():
    shown: list[EditSample] = []

    def describe(sample):
        shown.append(sample)
        return "it"

    hidden = {"boxes": {"cup": [[0, 0, 4, 4]]}, "target_text": "secret", "hint": "secret", "operations": ["secret"]}
    reference = {"reference": scenes(3)[2].source.pil(), "mask": scenes(2)[1].source.pil(), "id": "secret"}
    world = EditingEnvironments(graded(), editor=Painter(), describe=describe)
    environment = begun(world, **hidden, **reference)
    environment.edit("wash")
    assert environment.look() == "This is the picture after 1. wash. it"
    (sample,) = shown
    assert sample == EditSample("picture", "make it blue", environment.sample.sources, environment.sample.edited)
    assert environment.sample.target_text == "secret"


def test_a_row_without_a_prompt_is_asked_by_its_instruction():
    world = EditingEnvironments(graded(), editor=Painter())
    assert world().reset(**row()).startswith("Edit the picture: make it blue\n\nYou can")
    assert world().reset(**row(prompt=[{"role": "user", "content": "Go on."}])).startswith("\n\nYou can")
    with pytest.raises(ValueError, match="lists of messages"):
        world().reset(**row(prompt="Go on."))
    with pytest.raises(ValueError, match="an edit needs `instruction`"):
        world().reset(source=row()["source"])
    empty = world()
    empty.reset(**row(instruction=None))
    assert "an edit needs `instruction`" in empty.unusable
    with pytest.raises(RuntimeError, match="call reset"):
        world().look()


def test_environments_of_another_factory_are_somebody_elses():
    one, other = (EditingEnvironments(graded(), editor=Painter(), name=name) for name in ("one", "other"))
    mine, theirs = begun(one), begun(other)
    numbers: dict[str, float] = {}
    texts: dict[str, list[str]] = {}
    logs: Any = {"log_metric": numbers.__setitem__, "log_extra": texts.__setitem__}
    mine.edit("wash")
    assert rewards_of(one, theirs, mine, object(), **logs) == [None, read(mine.sample.edited), None]
    assert texts["one/instructions"] == ["", "wash", ""]
    assert numbers["one/edits"] == 1
    numbers.clear()
    assert rewards_of(one, theirs, **logs) == [None]
    assert numbers == {}


def test_a_call_logs_metrics_and_columns_of_texts():
    numbers: dict[str, float] = {}
    texts: dict[str, list[str]] = {}
    world = EditingEnvironments("guards", editor=Choosy(), name="safe")
    first, second = begun(world), begun(world)
    first.edit("wash")
    first.edit("dry")
    first.undo()
    second.edit("forbidden")
    rewards_of(world, first, second, log_metric=numbers.__setitem__, log_extra=texts.__setitem__)
    assert numbers["safe/unscored"] == 0
    assert {name: numbers[f"safe/{name}"] for name in ("edits", "edits/undone", "edits/failed")} == {
        "edits": 1.5,
        "edits/undone": 0.5,
        "edits/failed": 0.5,
    }
    assert set(texts) == {"safe/reason", "safe/evidence", "safe/instructions"}
    assert texts["safe/instructions"] == ["wash", ""]
    assert json.loads(texts["safe/evidence"][0])[0]["what"]


def painter():
    return Painter()


def test_the_factory_pickles_and_makes_the_same():
    world = EditingEnvironments("guards", editor=f"{__name__}:painter", name="safe")
    begun(world).edit("wash")  # what is under way stays behind
    copy = pickle.loads(pickle.dumps(world))
    assert copy.reward.__name__ == "safe"
    first, second = begun(world), begun(copy)
    assert first.edit("wash") == second.edit("wash")
    assert first.sample.edited == second.sample.edited
    assert rewards_of(copy, second, first) == [*rewards_of(world, first), None]
    wrong = EditingEnvironments("guards", editor=print)  # type: ignore[arg-type]
    environment = begun(wrong)
    assert "is no editor, but builtin_function" in environment.edit("wash")  # TRL tells the policy, and goes on
    with pytest.raises(ValueError, match="is no editor, but builtin_function"):
        rewards_of(wrong, environment)
    with pytest.raises(ValueError, match="has its experts already"):
        EditingEnvironments(graded(), {}, editor=Painter())


def test_tools_are_what_trl_takes_for_tools():
    methods = [name for name, _ in inspect.getmembers(EditingEnvironment, inspect.isfunction) if name[0] != "_"]
    assert sorted(methods) == ["edit", "look", "reset", "undo"]
    environment = EditingEnvironments(graded(), editor=Painter())()
    for tool in (environment.edit, environment.undo, environment.look):
        schema = transformers.utils.get_json_schema(tool)["function"]
        assert schema["description"]
        assert schema["parameters"]["properties"].keys() == inspect.signature(tool).parameters.keys()


def call(tool: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call>"


Script = Sequence[str]
"""What a policy says in one rollout, turn by turn; after that it has nothing more to say."""


def scripted(trainer: Any, scripts: Sequence[Script]) -> None:
    """Have the policy say, in its own tokens, the first script that begins with what it has said so far."""
    tokenizer = trainer._tokenizer

    def generate(input_ids: Any, **_: Any) -> Any:
        spoken = []
        for number, text in enumerate(tokenizer.batch_decode(input_ids)):
            turns = text.split("<|im_start|>assistant\n")[1:-1]
            texts = [turn.partition("<|im_end|>")[0] for turn in turns]
            script = next(one for one in scripts if list(one[: len(texts)]) == texts) if texts else scripts[number]
            says = script[len(texts)] if len(texts) < len(script) else "done"
            spoken.append(torch.tensor([*tokenizer(says)["input_ids"], tokenizer.eos_token_id]))
        padded = torch.nn.utils.rnn.pad_sequence(spoken, batch_first=True, padding_value=tokenizer.pad_token_id)
        return torch.cat([input_ids, padded], dim=1)

    trainer.model.generate = generate


def policy(folder: Path) -> Path:
    """A tiny Qwen3 with the chat template of the real ones, and room for what the template says about tools."""
    from trl.chat_template_utils import qwen3_chat_template

    tools = [call(tool, instruction="make it blue") for tool in ("edit", "undo", "look", "paint")]
    tiny_language_model(folder, [qwen3_chat_template, *tools])
    config = transformers.AutoConfig.from_pretrained(folder)
    config.max_position_embeddings = 8192
    config.save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = qwen3_chat_template
    tokenizer.save_pretrained(folder)
    return folder


def rows_of(samples, **columns):
    from datasets import Dataset

    prompt = [{"role": "user", "content": "Make this edit with the tools."}]
    return Dataset.from_list(
        [{"prompt": prompt, "instruction": one.instruction, "source": one.source.pil(), **columns} for one in samples]
    )


class Listener:
    """A reward function without an opinion, that keeps what the tools told each rollout of the last batch."""

    __name__ = "listener"

    def __call__(self, completions, **_):
        self.heard = [
            [message["content"] for message in messages if message["role"] == "tool"] for messages in completions
        ]
        return [None] * len(completions)


def trained(folder, world, rows, scripts, model: Path | None = None, **settings) -> tuple[Any, Listener]:
    from trl import GRPOConfig, GRPOTrainer

    config = GRPOConfig(
        output_dir=str(folder / "out"), use_cpu=True, bf16=False, max_steps=2, num_generations=len(scripts),
        per_device_train_batch_size=len(scripts), max_completion_length=1500, logging_steps=1, save_strategy="no",
        report_to=[], disable_tqdm=True, learning_rate=1e-2, **settings,
    )  # fmt: skip
    listener = Listener()
    trainer = GRPOTrainer(
        str(model or policy(folder / "model")), reward_funcs=[world.reward, listener], args=config,
        train_dataset=rows, environment_factory=world,
    )  # fmt: skip
    scripted(trainer, scripts)
    trainer.train()
    return trainer, listener


def steps(trainer):
    return [entry for entry in trainer.state.log_history if "reward" in entry]


def test_grpo_says_what_went_wrong_and_goes_on(tmp_path):
    editor = Choosy()
    world = EditingEnvironments(graded(), editor=editor, max_edits=1)
    scripts = [
        [call("paint"), call("edit", words="blue"), call("edit", instruction="make it blue")],
        [call("edit", instruction="make it bluer"), call("edit", instruction="make it blue again")],
        [call("edit", instruction="forbidden"), call("undo")],
        [call("edit", instruction="gone")],
        ["<tool_call>\n{nothing}\n</tool_call>"],
    ]
    trainer, listener = trained(tmp_path, world, rows_of(scenes(1)), scripts)
    (unknown, wrong, fine), (_, late), (failed, _), (gone,), nothing = listener.heard
    assert "paint not found" in unknown
    assert "unexpected keyword argument 'words'" in wrong
    assert fine == "The picture was edited. You can ask for no more edits."
    assert "Nothing was edited" in late
    assert "out of paint" in failed
    assert "Connection refused" in gone
    assert nothing == []
    assert [words for words, _ in editor.requests] == ["make it bluer", "make it blue"] * 2
    assert [entry["graded/edits"] for entry in steps(trainer)] == pytest.approx([0.8, 0.8])
    rewards = list(trainer._logs["rewards"]["graded"])[-5:]
    assert [np.isnan(one) for one in rewards] == [False, False, False, True, False]
    assert rewards[2] == rewards[4] == pytest.approx(read(scenes(1)[0].source))
    assert list(trainer._logs["advantages"])[-2] == 0
