"""The lines of docs/trainers/verl_omni.md in verl-omni's calling code, restated; and calls of its reward managers."""

import asyncio
import importlib
import inspect
import io
import json
import math
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from editcritic.integrations.trainers import verl_omni
from editcritic.integrations.trainers.trainer_reward import TrainerReward, UnscoredError
from editcritic.integrations.trainers.verl_omni import compute_score
from editcritic.reward import EditSample, Image, Reward
from editcritic.reward.queries import Failure

from ...reward.fakes import Fake, Rated, picture
from .entries import Seen
from .restated import verl_omni as restated
from .trainer_cases import Batch, Judge, batch, check_log, documented, values
from .trainer_cases import served as judge_server

EDITS = batch()
STEPS = 3  # timesteps of a rollout

SINGLE, IN_PROCESS, COMMAND, WITHOUT_MISSING, SEVERAL = documented("verl-omni", "text")


def lines(*blocks: str, url: str = "", root: Path | str = "") -> list[str]:
    text = "".join(blocks).replace("http://127.0.0.1:8321", url).replace("/data/edits/images", str(root))
    kept = [line for line in text.splitlines() if not line.endswith(("server_url=", "image_root="))]
    return [*kept, f"+{key_of(kept)}.outage_timeout_s=0", f"+{key_of(kept)}.on_failures=none"]


def key_of(settings: list[str]) -> str:
    several = any("reward_functions" in line for line in settings)
    return "reward.reward_functions.edits" if several else "reward.custom_reward_function.reward_kwargs"


def png(image: Image) -> bytes:
    buffer = io.BytesIO()
    image.pil().save(buffer, "PNG")
    return buffer.getvalue()


def tensor(image: Image) -> torch.Tensor:
    return torch.from_numpy(image.pixels.copy()).permute(2, 0, 1)


def rollouts(edits: Batch) -> tuple[list[restated.DataItem], list[str]]:
    """Samples as reward workers get them, of a data set with `source_img`, and their groups."""
    items = [
        restated.DataItem(
            tensor(edited),
            {
                "data_source": "image_edit",
                "reward_model": {"style": "model", "ground_truth": prompt},
                "extra_info": {
                    "split": "train",
                    "index": row // edits.group_size,
                    "instruction": prompt,
                    "image": "a.png",
                    "source_img": [{"bytes": png(source)}],
                },
                "tool_extra_fields": {"prompt_embeds": torch.zeros(2)},
            },
        )
        for row, (prompt, source, edited) in enumerate(zip(edits.prompts, edits.sources, edits.edited, strict=True))
    ]
    return items, [f"uid-{row // edits.group_size}" for row in range(len(items))]


def step(settings: list[str], edits: Batch, num_workers: int = 0) -> tuple[restated.DataProto, dict[str, float]]:
    config = restated.configuration(settings)
    restated.task_runner_imports(config)
    managers = [restated.reward_manager(config) for _ in range(num_workers or config.reward.num_workers)]
    data = restated.rollouts_with_rewards(managers, *rollouts(edits))
    return data, restated.train_step(config, data, STEPS)


def rewards(data: restated.DataProto) -> list[float]:
    return [float(value) for value in data.batch["rm_scores"][:, 0]]


@pytest.fixture(autouse=True)
def own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """verl-omni's module of estimators is the restated one, and scorers are those of the test."""
    names = ["verl_omni", "verl_omni.trainer", "verl_omni.trainer.diffusion"]
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "verl_omni.trainer.diffusion.diffusion_algos", restated)
    monkeypatch.setattr(verl_omni, "_scorers", {})
    estimator = "editcritic.integrations.trainers.verl_omni_advantages"
    monkeypatch.delitem(sys.modules, estimator, raising=False)
    monkeypatch.delitem(restated.DIFFUSION_ADV_ESTIMATOR_REGISTRY, "editcritic_flow_grpo", raising=False)
    yield
    sys.modules.pop(estimator, None)
    restated.DIFFUSION_ADV_ESTIMATOR_REGISTRY.pop("editcritic_flow_grpo", None)


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, Judge]]:
    judge = getattr(request, "param", None) or Judge()
    with judge_server(judge.reward(on_failures="none")) as url:
        yield url, judge


FAILING = EDITS.edited[5]
ABSTAINING = EDITS.edited[10]


def faulty() -> Judge:
    return Judge(failing=Judge.always(FAILING), abstaining={ABSTAINING.digest})


def advantages_of(known: list[int], global_std: bool) -> torch.Tensor:
    """verl-omni's advantages of a step that has these samples only."""
    step_rewards = torch.tensor([0.0 if row == 10 else value for row, value in enumerate(values(EDITS))])[known, None]
    groups = np.array([str(row // 4) for row in known], dtype=object)
    return restated.compute_flow_grpo_outcome_advantage(step_rewards.expand(-1, STEPS), groups, global_std=global_std)[
        0
    ]


def test_with_several_rewards_a_sample_that_one_has_not_scored_is_left_out():
    with judge_server(faulty().reward(on_failures="none")) as url:
        settings = lines(SEVERAL, WITHOUT_MISSING, url=url)
        settings = [line.replace(key_of([SINGLE]), key_of([SEVERAL])) for line in settings]
        data, metrics = step(settings, EDITS)
    known = [row for row in range(16) if row != 5]
    assert torch.equal(data.batch["advantages"][known], advantages_of(known, global_std=True))
    assert torch.equal(data.batch["advantages"][5], torch.zeros(STEPS))
    check_log("verl-omni, several rewards", metrics)


@pytest.mark.parametrize("served", [faulty()], indirect=True)
def test_with_a_missing_score_the_engine_updates_and_both_logs_have_its_share(served):
    data, metrics = step([*lines(SINGLE, WITHOUT_MISSING, url=served[0]), "algorithm.global_std=False"], EDITS)
    known = [row for row in range(16) if row != 5]
    assert torch.equal(data.batch["advantages"][known], advantages_of(known, global_std=False))
    assert torch.equal(data.batch["advantages"][5], torch.zeros(STEPS))
    weights = torch.ones(1, requires_grad=True)
    assert restated.optimizer_step(weights, weights * torch.ones(16, STEPS), data)
    check_log("verl-omni", metrics)
    assert metrics["critic/reward_scored/mean"] == pytest.approx(np.mean([rewards(data)[row] for row in known]))
    assert math.isnan(metrics["critic/rewards/mean"])
    check_log("verl-omni, validation", restated.validate(data))


@pytest.mark.parametrize("served", [faulty()], indirect=True)
def test_a_missing_score_ends_the_run_unless_the_lines_say_otherwise(served):
    with pytest.raises(UnscoredError, match=r"1 of 1 edits have no score: \w+/\d+: failed \(.*did not answer"):
        step(lines(SINGLE, url=served[0]), EDITS)
    with pytest.raises(RuntimeError, match="Required sub-reward 'edits' failed: 1 of 1 edits have no score"):
        step(lines(SEVERAL, url=served[0]), EDITS)


def test_a_reward_of_the_configuration_is_built_once():
    settings = [line for line in lines(SINGLE, IN_PROCESS) if "server_url" not in line]
    settings = [line.replace("edit-balanced", "guards") for line in settings]
    data, metrics = step(settings, EDITS, num_workers=3)
    assert all(0 <= value <= 1 for value in rewards(data))
    assert metrics["critic/unscored/mean"] == 0.0
    assert len(verl_omni._scorers) == 1


def estimates(rewards_of: torch.Tensor, groups: list[str], **settings: Any) -> torch.Tensor:
    """By way of `compute_advantage`, with the settings in the configuration only."""
    importlib.import_module("editcritic.integrations.trainers.verl_omni_advantages")
    config = restated.configuration([f"algorithm.{name}={value}" for name, value in settings.items()]).algorithm
    data = restated.DataProto({"sample_level_rewards": rewards_of}, {"uid": np.array(groups, dtype=object)})
    restated.compute_advantage(data, "editcritic_flow_grpo", config=config)
    return data.batch["advantages"]


@given(
    st.lists(st.tuples(st.floats(0, 1, width=32), st.sampled_from("abc"), st.booleans()), min_size=2, max_size=12),
    st.booleans(),
    st.booleans(),
    st.integers(1, 3),
)
def test_the_estimator_is_theirs_over_the_samples_that_have_a_reward(rows, global_std, norm, timesteps):
    known = torch.tensor([not missing for _, _, missing in rows])
    whole = torch.tensor([[math.nan if missing else value] for value, _, missing in rows]).expand(-1, timesteps)
    groups = [group for _, group, _ in rows]
    settings = {"global_std": global_std, "norm_adv_by_std_in_grpo": norm}
    advantages = estimates(whole, groups, **settings)
    assert advantages.isfinite().all()
    assert (advantages[~known] == 0).all()
    if int(known.sum()) > 1:
        theirs, _ = restated.compute_flow_grpo_outcome_advantage(
            whole[known], np.array(groups, dtype=object)[known.numpy()], **settings
        )
        assert torch.equal(advantages[known], theirs)


@pytest.fixture
def input_dir(tmp_path: Path) -> Path:
    images = tmp_path / "edits" / "images"
    images.mkdir(parents=True)
    (images / "below").mkdir()
    wide, high = picture(0, 40, 20).pil(), picture(1, 12, 30).pil()
    wide.save(images / "wide.jpg")
    high.convert("RGBA").save(images / "below" / "high.png")
    wide.save(images / "turned.jpg", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0")
    examples = [
        {"prompt": f"make it {color}", "image": name}
        for color, name in (("blue", "wide.jpg"), ("red", "below/high.png"), ("green", "turned.jpg"))
    ]
    text = "".join(json.dumps(example) + "\n" for example in examples)
    (tmp_path / "edits" / "train.jsonl").write_text(text, encoding="utf-8")
    return tmp_path / "edits"


def sample_of(seen: Seen, edited: Image) -> EditSample:
    """Of an edit: threads decode sources, so that samples come in any order."""
    (sample,) = [sample for sample in seen.samples if sample.edited == edited]
    return sample


def rated(rows: list[dict[str, Any]], reward: Any, size: tuple[int, int] = (16, 16), **options: Any) -> list[float]:
    """Rows of a data set, each with a generated picture, as the managers have them scored."""
    manager = restated.VisualRewardManager(restated.configuration([]), partial(compute_score, reward=reward, **options))
    columns = ("data_source", "reward_model", "extra_info")
    items = [
        restated.DataItem(tensor(picture(90 + number, *size)), {name: row[name] for name in columns})
        for number, row in enumerate(rows)
    ]
    return rewards(restated.rollouts_with_rewards([manager], items, ["a"] * len(items)))


def test_the_sources_of_the_recipe_are_those_that_the_editor_sees(input_dir):
    rows, seen = restated.prepared_rows(input_dir, "train", 16), Seen()
    assert set(rows[0]["extra_info"]) == {"split", "index", "instruction", "image"}
    assert rated(rows, seen, image_root=str(input_dir / "images")) == [0.5] * 3
    trained_on = [Image.of(row["images"][0]["bytes"]) for row in rows]
    samples = [sample_of(seen, picture(90 + number, 16, 16)) for number in range(3)]
    assert [sample.source for sample in samples] == trained_on
    assert [sample.instruction for sample in samples] == ["make it blue", "make it red", "make it green"]


def test_the_documented_line_names_the_folder(input_dir, served):
    manager = restated.reward_manager(restated.configuration(lines(SINGLE, url=served[0], root=input_dir / "images")))
    (row, *_) = restated.prepared_rows(input_dir, "train", 8)
    item = restated.DataItem(tensor(EDITS.edited[0]), row)
    data = restated.rollouts_with_rewards([manager], [item], ["a"])
    sample = EditSample("x", "make it blue", (Image.of(row["images"][0]["bytes"]),), EDITS.edited[0])
    (score,) = Judge().reward()([sample])
    assert rewards(data) == [float(np.float32(score.value or 0))]


def test_another_side_than_that_of_the_picture_has_to_be_given(input_dir):
    rows, seen = restated.prepared_rows(input_dir, "train", 24), Seen()
    root = str(input_dir / "images")
    with pytest.raises(ValueError, match="16 x 8 pixels: give image_size=SIDE"):
        rated(rows[:1], seen, (16, 8), image_root=root)
    assert rated(rows, seen, (16, 8), image_root=root, image_size="24") == [0.5] * 3
    sources = [sample_of(seen, picture(90 + number, 16, 8)).source for number in range(3)]
    assert sources == [Image.of(row["images"][0]["bytes"]) for row in rows]
    for wrong in (0, "large", 10**6):
        with pytest.raises(ValueError, match="image_size is a number of pixels"):
            rated(rows, seen, image_root=root, image_size=wrong)
    with pytest.raises(ValueError, match="image_root is the folder"):
        rated(rows, seen, image_root=root + "x")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((name, "") for name in ("../outside.png", "/etc/passwd", "..", "", ".", "C:\\a.png", 3, "a\0b")),
        ("below\\..\\..\\outside.png", ""),
        *((name, f" names in image_root: .*{name}") for name in ("link.png", "below")),
        ("missing.png", " names in image_root: .*No such file"),
    ],
)
def test_a_name_that_leads_out_of_the_folder_or_to_no_file_is_refused(input_dir, name, reason):
    picture(3).pil().save(input_dir / "outside.png")
    (input_dir / "images" / "link.png").symlink_to(input_dir / "outside.png")
    (row, *_) = restated.prepared_rows(input_dir, "train", 16)
    row["extra_info"]["image"] = name
    with pytest.raises(ValueError, match=rf"extra_info\['image'\]{reason}"):
        rated([row], Seen(), image_root=str(input_dir / "images"), missing="nan")


def test_a_damaged_source_or_one_of_which_nothing_is_left_is_a_missing_score(input_dir):
    (input_dir / "images" / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    picture(3, 900, 1).pil().save(input_dir / "images" / "strip.png")
    rows, seen = restated.prepared_rows(input_dir, "train", 16), Seen()
    rows[0]["extra_info"]["image"], rows[2]["extra_info"]["image"] = "damaged.png", "strip.png"
    result = rated(rows, seen, image_root=str(input_dir / "images"), missing="nan")
    assert [math.isnan(value) for value in result] == [True, False, True]
    with pytest.raises(UnscoredError, match=r"edit-0: failed \(the image source-0: damaged.png"):
        rated(rows[:1], seen, image_root=str(input_dir / "images"))


def test_without_a_source_or_a_reward_it_says_so(input_dir):
    rows = restated.prepared_rows(input_dir, "train", 16)
    with pytest.raises(ValueError, match=r"image_root=INPUT_DIR/images .* or add source_img with `python -m "):
        rated(rows, "guards")
    with pytest.raises(ValueError, match="no reward"):
        rated(rows, "")


def row(number: int, **changes: Any) -> dict[str, Any]:
    (item, *_), _ = rollouts(Batch(["make it blue"], [picture(number % 3)], [picture(number)], 1))
    arguments = restated.VisualRewardManager.arguments(item)
    return {**arguments, "extra_info": arguments["extra_info"] | changes}


def one(**arguments: Any) -> dict[str, float]:
    assert inspect.iscoroutinefunction(compute_score)
    return asyncio.run(asyncio.wait_for(compute_score(**arguments), 60))


def test_pictures_may_be_uint8_floats_or_batches_and_sources_lists_bytes_or_arrays():
    seen = Seen()
    whole = tensor(picture(4))
    for image in (whole, whole / 255, whole[None], torch.stack([whole, whole * 0]), (whole[None] / 255).bfloat16()):
        assert one(**{**row(4), "solution_image": image}, reward=seen)["score"] == 0.5
    assert {sample.edited for sample in seen.samples[:4]} == {picture(4)}
    assert {sample.source for sample in seen.samples} == {picture(1)}
    tables = np.empty(2, dtype=object)
    tables[:] = [{"bytes": png(picture(1))}, {"bytes": png(picture(2)), "path": None}]
    for source in ({"bytes": png(picture(1))}, [picture(1).pil()], (png(picture(1)),), tables, picture(1).pixels):
        one(**row(4, source_img=source), reward=seen)
    assert [len(sample.sources) for sample in seen.samples[5:]] == [1, 1, 1, 2, 1]
    assert {sample.sources[0] for sample in seen.samples} == {picture(1)}


def test_what_is_asked_for_is_the_instruction_else_the_ground_truth_and_groups_have_their_source():
    seen = Seen()
    for info in ({"instruction": "make it red"}, {"instruction": None}, {"editcritic": {"target_text": "CAFE"}}):
        one(**row(3, **info), reward=seen)
    one(**row(4), reward=seen)
    assert [sample.instruction for sample in seen.samples] == ["make it red", *["make it blue"] * 3]
    assert [sample.target_text for sample in seen.samples] == ["", "", "CAFE", ""]
    assert seen.samples[1].group == seen.samples[2].group
    assert len({sample.group for sample in seen.samples}) == 3


def test_a_missing_score_is_nan_and_never_zero_and_has_the_columns_of_others():
    reward = Reward(Rated(), {"preference": Fake(lambda query: Failure("no answer", infrastructure=True))})
    result = one(**row(4), reward=reward, outage_timeout_s="0", missing="nan")
    assert math.isnan(result["score"])
    assert (result["unscored"], result["abstained"]) == (1, 0)
    assert set(result) == set(one(**row(4), reward=Reward(Rated(), {"preference": Fake()})))


def test_options_of_a_configuration_may_be_its_own_tables_and_lists():
    config = restated.configuration(
        ["+given.reward={use: guards}", "+given.logged_parts=[guard-not-blank, not_a_copy]"]
    ).given
    first, second = (one(**row(4), **dict(config)) for _ in range(2))
    assert {"guard-not-blank", "not_a_copy"} < set(first) == set(second)
    assert len(verl_omni._scorers) == 1


def test_the_loop_goes_on_while_a_reward_is_built(monkeypatch):
    """It may be a connection to a slow server."""
    ticked = threading.Event()

    def slow(*args: Any, **options: Any) -> Any:
        assert ticked.wait(20), "the loop stood still"
        return TrainerReward(*args, **options)

    async def calls() -> Any:
        asyncio.get_running_loop().call_later(0.05, ticked.set)
        return await asyncio.gather(*(compute_score(**row(number), reward=Seen()) for number in range(3)))

    monkeypatch.setattr(verl_omni, "TrainerReward", slow)
    assert [result["score"] for result in asyncio.run(asyncio.wait_for(calls(), 60))] == [0.5] * 3
