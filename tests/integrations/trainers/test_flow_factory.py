"""The reward model in Flow-Factory's calling code, with the settings of docs/trainers/flow_factory.md."""

import importlib
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml  # type: ignore[import-untyped]

from editcritic.integrations.trainers import flow_factory
from editcritic.integrations.trainers.trainer_reward import UnknownTrainerError
from editcritic.reward import Image

from ..prepared_processes import found_by_both
from .entries import Seen
from .trainer_cases import Batch, Judge, batch, documented, served, values

ADAPTER = flow_factory.__name__
VERSIONS = ("flow_factory", "flow_factory_sources")
"""a0b2bc5, 5f6cda1."""

EDITS = batch()
FAILED, ABSTAINED = 5, 10
SUM_GLOBAL, SUM_GROUP, GDPO = ("sum", True), ("sum", False), ("gdpo", True)
FORMULAS = (SUM_GLOBAL, SUM_GROUP, GDPO)
SAMPLERS = ("distributed_k_repeat", "group_contiguous")


def fresh(name: str, put: Callable[[str, Any], None], as_name: str = "") -> ModuleType:
    found = importlib.util.find_spec(name)
    assert found is not None
    assert found.origin is not None
    spec = importlib.util.spec_from_file_location(as_name or name, found.origin)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    put(as_name or name, module)
    spec.loader.exec_module(module)
    return module


def install(version: str, put: Callable[[str, Any], None] = sys.modules.__setitem__) -> Any:
    """Let a restated Flow-Factory be the one that is installed, and import the adapter again. Returns the former."""
    theirs: Any = fresh(f"{__package__}.restated.{version}", put, f"{__package__}.restated.{version}_installed")
    for name in ("flow_factory", "flow_factory.rewards", "flow_factory.advantage"):
        module: Any = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        put(name, module)
    rewards: Any = sys.modules["flow_factory.rewards"]
    for name in ("PointwiseRewardModel", "RewardModelOutput", "RewardProcessor"):
        setattr(rewards, name, getattr(theirs, name))
    advantage: Any = sys.modules["flow_factory.advantage"]
    advantage.AdvantageProcessor = theirs.AdvantageProcessor
    fresh(ADAPTER, put)
    return theirs


@pytest.fixture(params=VERSIONS)
def theirs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    return install(request.param, lambda name, module: monkeypatch.setitem(sys.modules, name, module))


@pytest.fixture
def untouched(theirs: Any) -> Any:
    return importlib.import_module(theirs.__name__.removesuffix("_installed"))


def settings(reward: Any, **options: Any) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load("".join(documented("Flow-Factory", "yaml")))
    (row,) = read["rewards"]
    row |= {"reward": reward, **options}
    return read


def train(formula: tuple[str, bool], group_size: int = 4) -> dict[str, Any]:
    return {"advantage_aggregation": formula[0], "global_std": formula[1], "group_size": group_size}


def tensor(image: Image) -> torch.Tensor:
    """3 x H x W in [0, 1], as decoders of latents give it."""
    return torch.from_numpy(image.pixels.astype(np.float32) / 255).permute(2, 0, 1)


def samples_of(theirs: Any, edits: Batch = EDITS, rows: range | None = None, **fields: Any) -> list[Any]:
    return [
        theirs.BaseSample(
            image=tensor(edits.edited[row]),
            prompt=edits.prompts[row],
            condition_images=[tensor(edits.sources[row])],
            all_latents=torch.zeros(2, 3),
            **fields,
        )
        for row in (range(len(edits.prompts)) if rows is None else rows)
    ]


def faulty(edits: Batch = EDITS, failed: tuple[int, ...] = (FAILED,)) -> Any:
    """A judge that fails for an edit whatever is done, and abstains from another."""
    judge = Judge(
        failing=Judge.always(*(edits.edited[row] for row in failed)), abstaining={edits.edited[ABSTAINED].digest}
    )
    return judge.reward(on_failures="none")


def with_faults(edits: Batch = EDITS, failed: tuple[int, ...] = (FAILED,)) -> list[float]:
    """The values of a faulty judge: NaN, and the lowest of the range."""
    known = values(edits)
    known[ABSTAINED] = 0.0
    for row in failed:
        known[row] = math.nan
    return known


def expected(rewards: list[list[float]], weights: list[float], formula: tuple[str, bool], group_size: int = 4) -> Any:
    """Advantages by the trainer's formulas, in which a row that lacks any reward does not occur; 0 for that row."""
    table = np.array(rewards, np.float32).astype(np.float64)  # (rewards, rows)
    groups = np.arange(table.shape[1]) // group_size
    kept = ~np.isnan(table).any(axis=0)
    advantages = np.zeros(table.shape[1])
    if not kept.any():
        return advantages
    aggregation, global_std = formula
    terms = []
    for row in [np.tensordot(weights, table, 1)] if aggregation == "sum" else list(table):
        term = np.zeros_like(row)
        for group in np.unique(groups[kept]):
            rows = kept & (groups == group)
            divisor = row[kept].std() if aggregation == "sum" and global_std else row[rows].std()
            term[rows] = (row[rows] - row[rows].mean()) / max(divisor, 1e-6)
        terms.append(term)
    if aggregation == "sum":
        return terms[0]
    combined = np.tensordot(weights, np.stack(terms), 1)
    advantages[kept] = (combined[kept] - combined[kept].mean()) / combined[kept].std()
    return advantages


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_without_a_failure_nothing_is_changed(theirs, untouched, formula, sampler):
    read = {"train": train(formula), "data": {"sampler_type": sampler}}
    trainer = theirs.Trainer(settings(Judge().reward()) | read)
    advantages = trainer.step([samples_of(theirs)])

    Base: Any = untouched.PointwiseRewardModel

    class Known(Base):  # type: ignore[misc]
        def __call__(self, prompt, image=None):
            return untouched.RewardModelOutput(rewards=torch.tensor(values(EDITS)))

    sys.modules[__name__].__dict__["Known"] = Known
    row = {"name": "edits", "reward_model": f"{__name__}.Known", "device": "cpu"}
    plain = untouched.Trainer({"rewards": [row], **read})
    assert torch.equal(plain.step([samples_of(untouched)]), advantages)
    ours = {name: value for name, value in trainer.log[0].items() if not name.startswith("train/editcritic/")}
    assert {**ours, "train_samples": None} == {**plain.log[0], "train_samples": None}


class Brightness:
    def __new__(cls, config: Any, accelerator: Any) -> Any:
        rewards: Any = sys.modules["flow_factory.rewards"]

        class Model(rewards.PointwiseRewardModel):  # type: ignore[misc]
            def __call__(self, prompt, image=None, **kwargs):
                assert len(image) == len(prompt)
                means = [float(one.mean()) for one in image]
                return rewards.RewardModelOutput(rewards=torch.tensor(means))

        return Model(config, accelerator)


def brightness(edits: Batch = EDITS) -> list[float]:
    return [float(image.pixels.mean() / 255) for image in edits.edited]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_beside_another_reward_an_edit_that_lacks_one_is_left_out_of_both(theirs, formula, sampler):
    read = settings(faulty(), outage_timeout_s=0, weight=0.75)
    read["rewards"].append({"name": "light", "reward_model": f"{__name__}.Brightness", "weight": 2.0, "device": "cpu"})
    trainer = theirs.Trainer(read | {"train": train(formula), "data": {"sampler_type": sampler}})
    samples = samples_of(theirs)
    advantages = trainer.step([samples])
    wanted = expected([with_faults(), brightness()], [0.75, 2.0], formula)
    np.testing.assert_allclose(advantages.numpy(), wanted, atol=5e-5)
    assert advantages[FAILED] == 0
    assert advantages.dtype == torch.float64
    assert [float(sample.extra_kwargs["advantage"]) for sample in samples] == advantages.tolist()
    assert math.isnan(float(samples[FAILED].extra_kwargs["rewards"]["edits"])), "and no number is made up for it"
    others = np.delete(brightness(), FAILED)
    assert trainer.log[0]["train/reward_light_mean"] == pytest.approx(others.mean(), abs=1e-6)
    assert "train/editcritic/light/following" not in trainer.log[0]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_reward_that_does_not_apply_to_a_data_set_is_no_failure(monkeypatch, sampler):
    theirs = install("flow_factory_sources", lambda name, module: monkeypatch.setitem(sys.modules, name, module))
    read = settings(faulty(), outage_timeout_s=0, applicable_datasets=["pairs"])
    read["rewards"].append({"name": "light", "reward_model": f"{__name__}.Brightness", "device": "cpu"})
    data = {"sampler_type": sampler, "datasets": ["pairs", "posters"]}
    trainer = theirs.Trainer(read | {"data": data, "train": train(SUM_GROUP)})
    first = samples_of(theirs, rows=range(8), source="pairs", source_id=0)
    advantages = trainer.step([first + samples_of(theirs, rows=range(8, 16), source="posters", source_id=1)])
    both = expected([with_faults(), brightness()], [1.0, 1.0], SUM_GROUP)
    light = expected([brightness()], [1.0], SUM_GROUP)
    np.testing.assert_allclose(advantages.numpy(), [*both[:8], *light[8:]], atol=2e-5)
    assert trainer.log[0]["train/editcritic/edits/unscored"] == 1 / 8
    assert trainer.log[0]["train/editcritic/no_advantage"] == 1 / 16


def test_a_custom_aggregation_is_given_the_rewards_as_they_are(theirs):
    trainer = theirs.Trainer(settings(faulty(), outage_timeout_s=0))
    given = []

    def own(processor, samples, rewards, store_to_samples):
        given.append(rewards["edits"].isnan().sum())
        return torch.zeros(len(samples))

    trainer.aggregation = own
    assert trainer.step([samples_of(theirs)]).tolist() == [0.0] * 16
    assert given == [1]
    assert trainer.log[0]["train/editcritic/edits/unscored"] == 1 / 16


CASES = [
    (version, sampler, formula, failed)
    for version in VERSIONS
    for sampler in SAMPLERS
    for formula in FORMULAS
    for failed in ((FAILED,), (4, 5, 6), tuple(range(8)), tuple(range(16)))
]
"""One edit has no value; all of a group but one; all edits of the first process; all of both."""


def as_a_rank(folder: str) -> None:
    from accelerate import Accelerator

    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2
    rank = accelerator.process_index
    results = []
    for version, sampler, formula, failed in CASES:
        theirs = install(version)
        read = settings(faulty(failed=failed), outage_timeout_s=0)
        read |= {"train": train(formula), "data": {"sampler_type": sampler}}
        trainer = theirs.Trainer(read, accelerator)
        advantages = trainer.step([samples_of(theirs, rows=range(8 * rank, 8 * rank + 8))])
        log = {name: value for name, value in trainer.log[0].items() if name != "train_samples"}
        results.append({"advantages": advantages.tolist(), "log": log})
    Path(folder, f"{rank}.json").write_text(json.dumps(results))
    torch.distributed.destroy_process_group()


def test_two_processes_agree_with_one(tmp_path):
    for case, *results in zip(CASES, *found_by_both(f"{__name__}:as_a_rank", tmp_path), strict=True):
        _, _, formula, failed = case
        advantages = [value for result in results for value in result["advantages"]]
        wanted = expected([with_faults(failed=failed)], [1.0], formula)
        np.testing.assert_allclose(advantages, wanted, atol=5e-5, err_msg=str(case))
        first, second = (
            {name: value for name, value in result["log"].items() if "editcritic" in name} for result in results
        )
        assert first == second, case
        assert first["train/editcritic/no_advantage"] == len(failed) / 16, case
        assert first["train/editcritic/edits/unscored"] == len(failed) / 16, case
        if len(failed) < 16:
            assert results[0]["log"].keys() == results[1]["log"].keys(), case
            assert "train/editcritic/edits/following" in first, case


@pytest.fixture
def judge_and_url() -> Iterator[tuple[Judge, str]]:
    judge = Judge()
    with served(judge.reward()) as url:
        yield judge, url


def test_asynchronous_batches_are_in_order_whatever_their_size(theirs):
    trainer = theirs.Trainer(settings(faulty(), outage_timeout_s=0, batch_size=3, async_reward=True, num_workers=4))
    advantages = trainer.step(list(theirs.in_batches(samples_of(theirs), 5)))
    np.testing.assert_allclose(advantages.numpy(), expected([with_faults()], [1.0], GDPO), atol=2e-5)
    assert trainer.log[0]["train/editcritic/edits/unscored"] == 1 / 16


def test_an_evaluation_does_not_reach_the_log_of_a_step(theirs):
    trainer = theirs.Trainer(settings(faulty(), outage_timeout_s=0))
    assert math.isnan(trainer.evaluate(samples_of(theirs))["eval/reward_edits_mean"])
    assert trainer.evaluate(samples_of(theirs, rows=range(4)))["eval/reward_edits_mean"] == pytest.approx(
        np.mean(values(EDITS)[:4])
    )
    trainer.step([samples_of(theirs, rows=range(12, 16))])
    assert trainer.log[0]["train/editcritic/edits/unscored"] == 0.0


def test_columns_are_no_fields_of_samples(theirs):
    trainer = theirs.Trainer(settings(Judge().reward()))
    samples = samples_of(theirs)
    before = set(samples[0].to_dict())
    trainer.step([samples])
    assert set(samples[0].to_dict()) - before == {"rewards", "advantage"}


def test_options_are_text_or_numbers_and_equal_settings_share_a_model(theirs, judge_and_url):
    options: dict[str, Any] = {
        "missing": "nan", "outage_timeout_s": "5", "on_failures": "none", "max_failure_rate": "0.5",
        "max_concurrency": "2", "chunk_size": 64, "abstained": "exclude", "logged_parts": "following, guard/not_a_copy",
    }  # fmt: skip
    read = settings(None)
    row = {**read["rewards"][0], "reward": judge_and_url[1], **options}
    trainer = theirs.Trainer({"rewards": [row, {**row, "name": "again", "weight": 2.0}]})
    model = trainer.models["edits"]
    assert model is trainer.models["again"]
    assert (model.reward.missing, model.reward.abstained, model.reward.outage_timeout_s) == ("nan", "exclude", 5.0)
    assert model.reward.logged_parts == ("following", "guard/not_a_copy")
    scorer = model.reward.scorer
    assert (scorer.on_failures, scorer.max_failure_rate) == ("wait", 0.5)
    assert (scorer.max_concurrency, scorer.chunk_size) == (2, 64)
    with pytest.raises(ValueError, match=r"takes the options .*, got 'concurency'"):
        theirs.Trainer({"rewards": [{**row, "concurency": 2}]})
    for wrong, message in (({"reward": ""}, "no reward"), ({"missing": "0"}, "must be 'raise' or 'nan'")):
        with pytest.raises(ValueError, match=message):
            theirs.Trainer({"rewards": [{**row, **wrong}]})


def test_two_names_of_one_model_are_logged_each(theirs):
    read = settings(faulty(), outage_timeout_s=0)
    read["rewards"].append({**read["rewards"][0], "name": "again"})
    trainer = theirs.Trainer(read)
    trainer.step([samples_of(theirs)])
    log = trainer.log[0]
    assert log["train/editcritic/edits/unscored"] == log["train/editcritic/again/unscored"] == 1 / 16


def test_another_flow_factory_is_refused_in_words(theirs, monkeypatch):
    advantage: Any = sys.modules["flow_factory.advantage"]

    Base: Any = theirs.AdvantageProcessor

    class Other(Base):  # type: ignore[misc]
        def compute_advantages(self, samples, values, keep=True):
            raise NotImplementedError

    monkeypatch.setattr(advantage, "AdvantageProcessor", Other)
    with pytest.raises(UnknownTrainerError, match=r"has compute_advantages\(.*values.*set missing: raise"):
        theirs.Trainer(settings(Judge().reward()))
    with pytest.warns(UserWarning, match="no parts of the reward are logged"):
        theirs.Trainer(settings(Judge().reward(), missing="raise"))
    monkeypatch.delitem(sys.modules, "flow_factory.advantage")
    with pytest.raises(UnknownTrainerError, match=r"has no flow_factory\.advantage"):
        theirs.Trainer(settings(Judge().reward()))


def test_without_flow_factory_it_is_a_callable_of_its_own():
    assert importlib.util.find_spec("flow_factory") is None
    config = SimpleNamespace(extra_kwargs={"reward": Judge().reward()})
    model = flow_factory.FlowFactoryReward(config, SimpleNamespace(device="cpu"))
    assert model.required_fields == ("prompt", "image", "condition_images")
    sources = [[image.pil()] for image in EDITS.sources]
    output = model(EDITS.prompts, [image.pil() for image in EDITS.edited], condition_images=sources)
    assert output.rewards.tolist() == pytest.approx(values(EDITS), abs=1e-6)
    with pytest.raises(ValueError, match="condition_images"):
        model(prompt=["a"], image=[EDITS.edited[0].pil()])


@pytest.mark.parametrize("as_text", [False, True], ids=["tables", "text"])
def test_fields_of_a_data_set_reach_the_reward(monkeypatch, tmp_path, as_text):
    theirs = install("flow_factory_sources", lambda name, module: monkeypatch.setitem(sys.modules, name, module))
    fields: list[dict[str, Any]] = [
        {"target_text": "CAFE", "boxes": {"sign": [[0.1, 0.1, 0.5, 0.5]]}},
        {"boxes": {"dog": [[0.0, 0.2, 0.4, 0.9]]}},
    ]
    lines = [
        {"prompt": prompt, "images": ["a.png"], "editcritic": json.dumps(row) if as_text else row, "difficulty": 3}
        for prompt, row in zip(("write CAFE", "remove the dog"), fields, strict=True)
    ]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    rows = theirs.rows_of(path, tmp_path / "cache")
    reward = Seen()
    trainer = theirs.Trainer(settings(reward) | {"train": train(GDPO, group_size=1)})
    samples = samples_of(theirs, rows=range(2))
    for sample, row in zip(samples, rows, strict=True):
        sample.prompt = row["prompt"]
        sample.extra_kwargs["metadata"] = row["metadata"]
    trainer.step([samples])
    assert [sample.instruction for sample in reward.samples] == ["write CAFE", "remove the dog"]
    assert reward.samples[0].target_text == "CAFE"
    assert [list(sample.boxes) for sample in reward.samples] == [["sign"], ["dog"]], "and no name of another row"


def test_a_column_of_its_own_is_taken_too():
    """As commits between those that were read hand columns over."""
    seen = Seen()
    model = flow_factory.FlowFactoryReward(
        SimpleNamespace(extra_kwargs={"reward": seen}), SimpleNamespace(device="cpu")
    )
    sources = [[tensor(EDITS.sources[0])]]
    model(["a"], [tensor(EDITS.edited[0])], condition_images=sources, editcritic=['{"target_text": "CAFE"}'])
    assert seen.samples[0].target_text == "CAFE"
