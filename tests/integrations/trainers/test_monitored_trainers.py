"""The reward-hacking monitor from adapters: a policy that hacks is heard of in the log and in the columns of a step."""

import asyncio
import io
import logging
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from editcritic.integrations.serving.server import ScoringService, serve_in_thread
from editcritic.integrations.trainers.dance_grpo import DanceGRPOReward
from editcritic.integrations.trainers.flow_factory import FlowFactoryReward
from editcritic.integrations.trainers.flow_grpo import FlowGRPOReward
from editcritic.integrations.trainers.omnigen2_rl import SCORE_KEY, OmniGen2Reward
from editcritic.integrations.trainers.trainer_reward import TrainerReward, resolve_heldout
from editcritic.integrations.trainers.unirl import UniRLRewardBackend
from editcritic.integrations.trainers.verl_omni import compute_score
from editcritic.integrations.trl.reward_function import RewardFunction
from editcritic.reward import EditSample, Image, Reward, Score
from editcritic.reward.queries import Measurement, Rate
from editcritic.reward.training.audit_probe import AuditProbe
from editcritic.reward.training.image_statistics import image_statistics
from editcritic.reward.training.monitored_reward import MonitoredReward

from ...reward.fakes import Fake
from ...reward.training.policies import HACKS, Policy
from .restated import unirl as restated_unirl
from .trainer_cases import Batch, Judge, Parted, batch, documented

Call = Callable[[list[EditSample]], object]


def flow_grpo(adapter: FlowGRPOReward) -> Call:
    """As Flow-GRPO's scripts call it: a batch of images, prompts, sources."""

    def call(edits: list[EditSample]) -> object:
        images = np.stack([edit.edited.pixels for edit in edits])
        sources = [[edit.source.pil()] for edit in edits]
        return adapter(images, [edit.instruction for edit in edits], [{}] * len(edits), ref_images=sources)[0]

    return call


def trl(function: RewardFunction) -> Call:
    def call(edits: list[EditSample]) -> object:
        columns: dict[str, Any] = {
            "instruction": [edit.instruction for edit in edits],
            "source": [edit.source.pil() for edit in edits],
            "edited": [edit.edited.pil() for edit in edits],
        }
        return function([""] * len(edits), [""] * len(edits), **columns)

    return call


def dance_grpo(adapter: DanceGRPOReward) -> Call:
    def call(edits: list[EditSample]) -> object:
        edited, sources = ([image.pil() for image in images] for images in zip(*map(_pictures, edits), strict=True))
        rows = zip(edits, sources, strict=True)
        return adapter(edited, [{"instruction": edit.instruction, "source_image": one} for edit, one in rows])

    return call


def flow_factory(adapter: FlowFactoryReward) -> Call:
    def call(edits: list[EditSample]) -> object:
        edited, sources = zip(*map(_pictures, edits), strict=True)
        return adapter(
            [edit.instruction for edit in edits],
            [tensor(image) for image in edited],
            condition_images=[[tensor(image)] for image in sources],
        )

    return call


def verl_omni(**options: Any) -> Call:
    """As its reward workers call it: one edit a call, many at once."""

    def call(edits: list[EditSample]) -> object:
        async def gathered() -> list[dict[str, float]]:
            calls = [
                compute_score(
                    "edits",
                    torch.from_numpy(edit.edited.pixels.transpose(2, 0, 1).copy()),
                    edit.instruction,
                    source_of(edit),
                    **options,
                )
                for edit in edits
            ]
            return await asyncio.gather(*calls)

        rows = asyncio.run(gathered())
        assert all("alarms" in row for row in rows)
        return rows

    return call


def omnigen2_rl(adapter: OmniGen2Reward) -> Call:
    def call(edits: list[EditSample]) -> object:
        edited, sources = ([image.pil() for image in images] for images in zip(*map(_pictures, edits), strict=True))
        metadata = [{"instruction": edit.instruction} for edit in edits]
        _, rewards, _, rows = adapter([[source] for source in sources], edited, metadata)
        assert all("alarms" in row[SCORE_KEY] for row in rows)
        return rewards

    return call


def unirl(backend: UniRLRewardBackend) -> Call:
    def call(edits: list[EditSample]) -> object:
        edited, sources = zip(*map(_pictures, edits), strict=True)
        request = SimpleNamespace(
            generated={"image": _unirl_images(edited)},
            conditioning={"image": _unirl_images(sources)},
            generation_prompt=restated_unirl.Texts([edit.instruction for edit in edits]),
            metadata=None,
        )
        response = backend.compute_rewards(request)
        assert len(response.component_rewards["alarms"]) == len(edits)
        return response.rewards

    return call


def _unirl_images(images: Iterable[Image]) -> restated_unirl.Images:
    return restated_unirl.Images([restated_unirl.Image(tensor(image)) for image in images])


def tensor(image: Image) -> torch.Tensor:
    return torch.from_numpy(image.pixels.copy()).permute(2, 0, 1) / 255


def source_of(edit: EditSample) -> dict[str, Any]:
    with io.BytesIO() as buffer:
        edit.source.pil().save(buffer, "PNG")
        return {"source_img": [{"bytes": buffer.getvalue()}]}


def _pictures(edit: EditSample) -> tuple[Image, Image]:
    return edit.edited, edit.source


def monitored(entry: str, reward: Reward, **options: Any) -> Call:
    if entry == "flow-grpo":
        return flow_grpo(FlowGRPOReward(reward, monitor="64", **options))
    if entry == "dance-grpo":
        return dance_grpo(DanceGRPOReward(reward, monitor=64, **options))
    if entry == "omnigen2-rl":
        return omnigen2_rl(OmniGen2Reward(reward, monitor=64, **options))
    if entry == "unirl":
        return unirl(UniRLRewardBackend(reward, monitor="64", **options))
    if entry == "flow-factory":
        config = SimpleNamespace(extra_kwargs={"reward": reward, "monitor": 64, **options})
        return flow_factory(FlowFactoryReward(config, SimpleNamespace(device="cpu")))
    if entry == "verl-omni":
        return verl_omni(reward=reward, monitor=64, **options)
    heldout = resolve_heldout(options.get("heldout"))
    probe = AuditProbe.of(reward, options["monitor_probe"]) if "monitor_probe" in options else None
    return trl(RewardFunction(MonitoredReward(reward, step_samples=64, heldout=heldout, probe=probe)))


@pytest.mark.parametrize(
    ("entry", "hack"),
    [
        ("flow-grpo", "copies the source"),
        ("dance-grpo", "makes one image per group"),
        ("flow-factory", "saturates"),
        ("verl-omni", "saturates"),
        ("unirl", "blurs"),
        ("omnigen2-rl", "copies the source"),
        ("trl", "blurs"),
        ("trl", ""),
    ],
)
def test_a_policy_that_hacks_is_heard_of_through_each_entry(entry, hack, caplog):
    name, change = HACKS[hack] if hack else ("", None)
    policy = Policy(11, change)
    call = monitored(entry, Judge().reward())
    with caplog.at_level(logging.WARNING, "editcritic.monitor"):
        for number in range(26):
            assert not caplog.text or number > 24
            edits = [edit.sample for edit in policy.step(number)]
            call(edits[:24])
            call(edits[24:])
    assert (f"reward hacking? {name}, since about step 20 of 64 edits" in caplog.text) == bool(hack)
    assert bool(caplog.text) == bool(hack)


def colourful(query: Rate) -> Measurement:
    """A judge that likes strong colours, and draws from the trainer's generators."""
    np.random.random()  # noqa: NPY002  (as a model of others may)
    torch.rand(1)
    return Measurement(image_statistics(query.image)["saturation"])


@pytest.mark.parametrize(
    "entry", ["flow-grpo", "dance-grpo", "flow-factory", "verl-omni", "unirl", "omnigen2-rl", "trl"]
)
def test_a_hack_that_the_reward_pays_is_named_through_each_entry_before_any_policy_does_it(entry, caplog):
    reward = Reward(Parted(), {"preference": Fake(colourful)})
    call = monitored(entry, reward, monitor_probe="every=1&samples=2&families=over-saturated,blank")
    policy = Policy(14)
    state = torch.random.get_rng_state()
    with caplog.at_level(logging.WARNING, "editcritic.monitor"):
        for number in range(5):
            assert not caplog.text
            call([edit.sample for edit in policy.step(number)])
    assert (
        "reward hacking? hack/over-saturated, since about step 0 of 64 edits: the hack over-saturated would"
        in caplog.text
    )
    assert "hack/blank" not in caplog.text
    assert torch.equal(torch.random.get_rng_state(), state) or entry == "verl-omni"  # which scores in threads


def test_scores_are_the_same_with_a_probe_and_the_trainers_random_numbers_too():
    rows = rows_of(batch())
    plain = TrainerReward(Reward(Parted(), {"preference": Fake(colourful)}))
    probed = TrainerReward(Reward(Parted(), {"preference": Fake(colourful)}), monitor=16, monitor_probe="every=1")
    states = []
    for reward in (plain, probed):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002  (the trainer's)
        result = reward(rows)
        states.append((result.values, torch.rand(3).tolist(), np.random.random(3).tolist()))  # noqa: NPY002
    assert states[0] == states[1]
    assert probed.monitor is not None
    assert probed.monitor.probe_failures == 0
    assert "hack/best" in probed.monitor.latest


def test_a_copy_is_what_held_out_guards_reject_and_the_trained_reward_pays():
    policy = Policy(12, HACKS["copies the source"][1], start=3)
    reward = TrainerReward(Judge().reward(), monitor=64, heldout="guards")
    for number in range(5):
        reward([edit.sample for edit in policy.step(number)])
    assert reward.monitor is not None
    assert reward.monitor.history[2][1]["heldout"] > 0.9 > 0.1 > reward.monitor.latest["heldout"]


def test_unirls_backend_takes_a_monitor_as_a_string():
    monitor = UniRLRewardBackend(Judge().reward(), monitor="64", heldout="").reward.monitor
    assert monitor is not None
    assert (monitor.step_samples, monitor.heldout) == (64, None)


def test_columns_have_the_number_of_alarms_and_values_are_the_same():
    edits = batch()
    rows = rows_of(edits)
    plain, watched = TrainerReward(Judge().reward()), TrainerReward(Judge().reward(), monitor="16")
    one, other = plain(rows), watched(rows)
    assert one.values == other.values
    assert set(other.columns) - set(one.columns) == {"alarms"}
    assert other.columns["alarms"] == [0.0] * 16
    assert watched.monitor is not None
    assert watched.monitor.steps == 1
    assert watched.monitor.latest["reward"] == pytest.approx(np.mean(one.values))


def test_a_sample_that_is_asked_again_counts_once_and_a_row_that_is_no_edit_does_not():
    edits = batch()
    judge = Judge(failing={edits.edited[5].digest: 1})
    watched = TrainerReward(judge.reward(), monitor=8, missing="nan")
    watched([*rows_of(edits), "the image edited: NaN"])
    assert watched.monitor is not None
    assert watched.monitor.steps == 2
    assert [numbers["unscored"] for _, numbers in watched.monitor.history] == [0.0, 0.0]


def test_the_held_out_reward_may_be_a_spec_or_a_server_that_is_gone(caplog):
    edits = batch()
    with serve_in_thread(ScoringService(Judge().reward())) as url:
        served = TrainerReward(Judge().reward(), monitor=16, heldout=url)
        served(rows_of(edits))
        assert served.monitor is not None
        assert served.monitor.latest["heldout"] == served.monitor.latest["reward"]
        assert served.monitor.latest["agreement"] == 1.0
    gone = TrainerReward(Judge().reward(), monitor=16, heldout=f"{url}?outage_timeout_s=0.2&deadline_s=1")
    assert not any(math.isnan(value) for value in gone(rows_of(edits)).values)
    assert gone.monitor is not None
    assert (gone.monitor.heldout_failures, gone.monitor.steps) == (1, 1)
    assert "the held-out reward did not score step 0" in caplog.text


def test_options_that_mean_nothing_are_refused(tmp_path, monkeypatch):
    for options, message in (
        ({"heldout": "guards"}, "are for the monitor: give monitor=64"),
        ({"monitor_state": "state.json"}, "are for the monitor"),
        ({"monitor_probe": "every=10"}, "are for the monitor"),
        ({"monitor": 16, "monitor_probe": "often"}, "as in every=10&samples=4, got 'often'"),
        ({"monitor": 4}, "at least 8 samples, got 4"),
        ({"monitor": "many"}, "monitor is a number, got 'many'"),
    ):
        with pytest.raises(ValueError, match=message):
            TrainerReward(Judge().reward(), **options)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ValueError, match=r"put \{rank\} into monitor_state"):
        TrainerReward(Judge().reward(), monitor=16, monitor_state=str(tmp_path / "state.json"))
    TrainerReward(Judge().reward(), monitor=16, monitor_state=str(tmp_path / "s-{rank}.json"))(rows_of(batch()))
    assert [path.name for path in tmp_path.iterdir()] == ["s-1.json"]


def test_a_restarted_trainer_keeps_its_baseline(tmp_path: Path):
    path = str(tmp_path / "monitor.json")
    for _ in range(3):
        TrainerReward(Judge().reward(), monitor=16, monitor_state=path)(rows_of(batch()))
    last = TrainerReward(Judge().reward(), monitor=16, monitor_state=path).monitor
    assert last is not None
    assert (last.steps, len(last.history)) == (3, 3)
    with pytest.raises(ValueError, match="with reward 'parted', and this one has 'guards'"):
        TrainerReward("guards", monitor=16, monitor_state=path)


def test_the_documented_lines_are_options_of_adapters():
    lines = "\n".join(documented("Alarms of reward hacking", "yaml")).splitlines()
    options = dict(line.partition("#")[0].strip().split(": ", 1) for line in lines)
    assert set(options) == {"monitor", "heldout", "monitor_probe", "monitor_state"}
    given = {name: options[name] for name in ("monitor", "heldout", "monitor_probe")}
    reward = TrainerReward(Judge().reward(), **given)
    assert reward.monitor is not None
    assert reward.monitor.probe is not None
    assert reward.monitor.probe.every == 10
    assert reward.monitor.step_samples == int(options["monitor"])
    assert reward.monitor.heldout is not None
    scores = reward.monitor.heldout([row for row in rows_of(batch()) if isinstance(row, EditSample)])
    assert [type(score) for score in scores] == [Score] * 16


def rows_of(edits: Batch) -> list[EditSample | str]:
    return [
        EditSample(id=f"edit-{row}", instruction=prompt, sources=(source,), edited=edited)
        for row, (prompt, source, edited) in enumerate(zip(edits.prompts, edits.sources, edits.edited, strict=True))
    ]
