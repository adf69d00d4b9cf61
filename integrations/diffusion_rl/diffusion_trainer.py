"""Diffusion editors that learn from any reward: GRPO on flow-matching pipelines, DDPO on epsilon ones, NFT, RAFT.

    trainer = DiffusionTrainer(pipeline, Reward.of("edit-balanced", experts), samples, DiffusionConfig("run"))
    trainer.train()
    pipeline.load_lora_weights("run")  # another day, another process

A compact trainer in the manner of TRL's, on diffusers, accelerate and peft: LoRA on the denoiser, groups of pictures of
the same sources by the same instruction, each compared with its own group, and one of these: the clipped ratio of PPO
over the steps of the sampler (Flow-GRPO: Liu et al. 2025, arXiv 2505.05470; DDPO with importance sampling: Black et al.
2023, arXiv 2305.13301, section 4.3; the pipeline's solver decides which of the two it is, see `diffusers.transitions`),
or the objectives of DiffusionNFT or RAFT (`diffusers.objectives`). It is the reference: readable, exact, tested. The
weights must fit on each device.

Several processes: `accelerate launch train.py`. Each makes and judges whole groups; gradients are added up over all.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from numpy.typing import NDArray
from peft import LoraConfig, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file
from torch import Tensor

from ..reward import EditSample, Score
from ..reward.advantages import Advantages, advantages
from ..reward.alarms import Watch
from ..verifiers import Noise
from .diffusers.calls import Calls
from .diffusers.families import family_of
from .diffusers.objectives import Found, grpo, imitated, nft, raft
from .diffusers.stepping import started
from .diffusers.trajectories import Recorded, Step, Trajectory, denoiser
from .diffusers.transitions import moves_of
from .diffusion_config import DiffusionConfig
from .trl import Rollout, metrics
from .untouched import untouched

__all__ = ["Batch", "Callback", "DiffusionConfig", "DiffusionTrainer", "Judge", "Judged"]

Judge = Callable[[Sequence[EditSample]], Sequence[Score]]
"""A `Reward`, or anything that is called like one."""

Callback = Callable[["DiffusionTrainer", int, dict[str, float]], Mapping[str, float] | None]
"""(trainer, step, numbers of that step) after each step, on every process; what it gives back is logged, too."""

_ADAPTER = "default"
_CHECKPOINT = "checkpoint-"


@dataclass(slots=True)
class Batch:
    """What one process has made in a step. rows: of each trajectory, which numbers of `samples` it holds."""

    step: int
    samples: list[EditSample]
    calls: list[tuple[Trajectory, list[int]]]
    seconds: float


@dataclass(slots=True)
class Judged:
    """Of a batch: what the rewards say of it."""

    scores: Sequence[Score]
    heldout: Sequence[Score] | None
    seconds: float


class DiffusionTrainer:
    """Teaches a diffusers pipeline by what a reward says of its pictures.

    pipeline: any that `editor_of` knows and whose solver is `FlowMatchEulerDiscreteScheduler` or `DDIMScheduler`, on
    the device where it is to stay. Its weights are frozen but for a LoRA on its transformer or UNet, which it has from
    now on. dataset: samples to be edited (`unedited`); they are gone through in an order of their own each time round,
    drawn from `seed`. reward: called once a step with all pictures of a process. Rows without a value teach nothing and
    do not count; a policy's own log says how many they are.

    heldout: a reward that nothing is trained on, for `watch`; asked about the same pictures. watch: alarms, fed by the
    main process with what it has made itself. Found afterwards in `trainer.watch.alarms`. probes: samples that it edits
    from the same noise before the first step and after each `probe_every`, for `watch.probe`; best some that are not
    trained on, 100 or more.

    log_history: the numbers of each step, means over processes: `reward`, `unscored`, `degenerate` and the other shares
    of `Advantages`; `ratio/clipped`, `ratio/off` (mean distance from 1) and `kl`; for `nft` `error` and `moved` (root
    mean square, in the denoiser's unit); for `raft` `error`, and `replaced`: how many pictures are to become another;
    `grad_norm`, `seconds/*`, one number for each part of a score (as in `integrations.trl`), and what `watch` and the
    callbacks say.
    """

    def __init__(
        self,
        pipeline: Any,
        reward: Judge,
        dataset: Sequence[EditSample],
        config: DiffusionConfig,
        *,
        heldout: Judge | None = None,
        watch: Watch | None = None,
        probes: Sequence[EditSample] = (),
        callbacks: Sequence[Callback] = (),
    ) -> None:
        if not len(dataset):
            raise ValueError("there is nothing to train on: the dataset holds no sample")
        if heldout is not None and watch is None:
            raise ValueError("a held-out reward is for the alarms: pass watch=Watch() with it")
        if bool(probes) != bool(config.probe_every) or (probes and heldout is None):
            raise ValueError("probes are for a held-out reward, now and then: pass probes=, heldout= and probe_every")
        family = family_of(pipeline)
        if family is None or family.whole:
            why = family.whole if family else "it is not among editcritic.integrations.diffusers.FAMILIES"
            raise ValueError(f"{type(pipeline).__name__} cannot be trained here: {why}")
        self.moves = moves_of(pipeline, config.noise, config.sampling)
        self.config, self.pipeline, self.reward, self.dataset = config, pipeline, reward, dataset
        self.heldout, self.watch, self.probes, self.callbacks = heldout, watch, probes, callbacks
        self.accelerator = Accelerator(
            mixed_precision=config.mixed_precision, log_with=config.report_to, project_dir=str(config.output_dir)
        )
        self.calls = Calls(pipeline, family, config.rollout_batch, config.call)
        self.module: Any = denoiser(pipeline)  # peft gives it methods
        self._with_lora()
        self.weights = [one for one in self.module.parameters() if one.requires_grad]
        self.optimizer = torch.optim.AdamW(self.weights, lr=config.learning_rate, weight_decay=config.weight_decay)
        self.log_history: list[dict[str, float]] = []
        self.step = 0

    # -- the loop ------------------------------------------------------------------------------------------------------

    def train(self, *, resume: bool = False) -> list[dict[str, float]]:
        """Go through all steps, and save the LoRA; gives back `log_history`.

        resume: from the newest checkpoint in `output_dir`, if there is one. Raises ValueError where that was made with
        other settings, and where there is one without `resume`.
        """
        config, folder = self.config, Path(self.config.output_dir)
        if resume:
            self._resume()
        elif not self.step and (found := _checkpoints(folder)):
            raise ValueError(f"{found[-1]} is of an earlier run: train(resume=True) goes on with it, or take it away")
        if self.accelerator.is_main_process:
            folder.mkdir(parents=True, exist_ok=True)
            lines = "".join(json.dumps(row) + "\n" for row in self.log_history)
            (folder / "log.jsonl").write_text(lines, encoding="utf-8")
        if config.report_to:
            self.accelerator.init_trackers("editcritic")
        if config.probe_every and not self.step:
            self._probe(-1)
        with ThreadPoolExecutor(1, "judge") as thread:
            ahead: tuple[Batch, Future[Judged]] | None = None
            while self.step < config.steps:
                batch, judging = ahead or self._started(self.step, thread)
                more = self.step + 1 < config.steps and not self._saves(self.step + 1)
                ahead = self._started(self.step + 1, thread) if config.overlap and more else None
                began = time.perf_counter()
                judged = judging.result()
                waited = time.perf_counter() - began
                log = {"seconds/rollout": batch.seconds, "seconds/judge": judged.seconds, "seconds/wait": waited}
                self._log(log | self.learn(batch, judged.scores), batch, judged)
                self.step += 1
                if self._saves(self.step):
                    self._save()
        self.save(folder)
        self.accelerator.wait_for_everyone()
        if config.report_to:
            self.accelerator.end_training()
        return self.log_history

    def rollout(self, step: int) -> Batch:
        """The pictures of a step, made by the weights as they are, with what is needed to learn from them."""
        began = time.perf_counter()
        config, here = self.config, self.accelerator.process_index
        asked = [
            (sample, group * config.group_size + number)
            for group, sample in enumerate(self._samples(step, here))
            for number in range(config.group_size)
        ]
        drafts = [
            started(sample.sources, sample.instruction, Noise(_seed(config.seed, step, here, row)), sample.earlier)
            for sample, row in asked
        ]
        chance, keep = config.chance, ()
        if (
            config.objective != "grpo"
        ):  # pictures as the editor makes them anyway; what they are noised to is drawn here
            draw = np.random.default_rng([config.seed, step])
            count = self.calls.evaluations
            chance, keep = (), draw.choice(count, min(config.levels, count), replace=False).tolist()
        calls: list[tuple[Trajectory, list[int]]] = []
        numbers = {id(draft): row for row, draft in enumerate(drafts)}

        def make(part: Sequence[Any]) -> Sequence[Any]:
            rows = [numbers[id(draft)] for draft in part]
            generators = [torch.Generator().manual_seed(draft.noise.seed) for draft in part]
            starts = generators
            if config.same_start:
                groups = [_seed(config.seed, step, here, "group", row // config.group_size) for row in rows]
                starts = [torch.Generator().manual_seed(seed) for seed in groups]
            recorded = Recorded(self.pipeline, self.moves, generators, chance, config.call, keep=keep)
            with self.accelerator.autocast(), recorded as trajectory:  # as in the passes that learn from it
                pictures = self.calls.pictures(part, starts)
            if not trajectory.steps:
                taken = len(self.pipeline.scheduler.timesteps)
                raise ValueError(f"none of {taken} steps is left to chance (the last has none): chance={config.chance}")
            calls.append((trajectory, rows))
            return pictures

        pictures = self.calls.each(drafts, make)
        samples = [
            replace(sample, id=f"{sample.id}/{step}/{row}", edited=picture)
            for (sample, row), picture in zip(asked, pictures, strict=True)
        ]
        return Batch(step, samples, calls, time.perf_counter() - began)

    def learn(self, batch: Batch, scores: Sequence[Score]) -> dict[str, float]:
        """Steps of the optimizer, from the scores of a batch; gives back what is worth logging."""
        began, config = time.perf_counter(), self.config
        found = advantages(
            scores,
            [f"{sample.group}/{row // config.group_size}" for row, sample in enumerate(batch.samples)],
            noise=config.judge_noise,
            scale=config.scale,
            noisy=config.noisy,
            clip=config.advantage_clip,
        )
        log: dict[str, list[float]] = {}
        wanted = self._wanted(batch, found) if config.objective == "raft" else None
        teaching = found.telling if wanted is None else np.array([row in wanted for row in range(len(batch.samples))])
        for part in range(config.updates):
            mine = [
                (call, [(at, row) for at, row in enumerate(rows) if self._part(row) == part and teaching[row]])
                for call, rows in batch.calls
            ]
            count = sum(len(rows) * len(trajectory.steps) for trajectory, rows in mine)
            total = int(self.accelerator.reduce(torch.tensor(count, device=self.accelerator.device), "sum"))
            if not total:
                continue
            for trajectory, rows in mine:
                for at in range(0, len(rows), config.train_batch):
                    places, known = zip(*rows[at : at + config.train_batch], strict=True)
                    if wanted is None:
                        values = torch.tensor(found.values[list(known)], dtype=torch.float32)
                    else:
                        values = torch.stack([wanted[row][1] for row in known])
                    for step in trajectory.steps:
                        loss, numbers = self._loss(trajectory, step, places, values)
                        (loss.sum() / total).backward()
                        for name, value in numbers.items():
                            log.setdefault(name, []).append(value)
            self._add_up()
            norm = float(torch.nn.utils.clip_grad_norm_(self.weights, config.max_grad_norm))
            log.setdefault("grad_norm", []).append(norm)
            for group in self.optimizer.param_groups:
                group["lr"] = config.learning_rate * self._pace()
            self.optimizer.step()
            self.optimizer.zero_grad()
        means = {name: fmean(values) for name, values in log.items() if values}
        if wanted is not None:
            means["replaced"] = sum(row != other for row, (other, _) in wanted.items()) / len(batch.samples)
        return found.numbers | means | {"seconds/learn": time.perf_counter() - began}

    def _wanted(self, batch: Batch, found: Advantages) -> dict[int, tuple[int, Tensor]]:
        """For `raft`: of each row that teaches something, the row it is to become, and the last state of that one."""
        size = self.config.group_size
        states = {row: call.final[at] for call, rows in batch.calls for at, row in enumerate(rows)}
        wanted: dict[int, tuple[int, Tensor]] = {}
        for first in range(0, len(batch.samples), size):
            group = [row for row in range(first, first + size) if found.telling[row]]
            if group:
                others = imitated(torch.stack([states[row] for row in group]), found.values[group], self.config.agree)
                pairs = [(row, group[other]) for row, other in zip(group, others, strict=True) if other is not None]
                wanted |= {row: (other, states[other]) for row, other in pairs}
        return wanted

    def _pace(self) -> float:
        """The share of the full learning rate."""
        config = self.config
        left = 1 - self.step / config.steps if config.schedule == "linear" else 1.0
        return min(1.0, (self.step + 1) / (config.warmup + 1)) * left

    def _loss(self, trajectory: Trajectory, step: Step, places: Sequence[int], values: Tensor) -> Found:
        config = self.config
        with self.accelerator.autocast():
            if config.objective == "raft":
                return raft(
                    trajectory, step, places, values,
                    threshold=config.threshold, beta=config.beta, without=self._without_lora,
                )  # fmt: skip
            if config.objective == "grpo":
                return grpo(
                    trajectory, step, places, values,
                    clip_range=config.clip_range, beta=config.beta, without=self._without_lora,
                )  # fmt: skip
            held = step.noising.noise < config.hold_below
            wanted = 0.5 + (0.0 if held else 1.0) * values / (2 * config.advantage_clip)
            seed = _seed(config.seed, self.step, self.accelerator.process_index, step.number, *places[:1])
            return nft(trajectory, step, places, wanted, reach=config.reach, seed=seed, without=self._without_lora)

    # -- what it is made of --------------------------------------------------------------------------------------------

    def _with_lora(self) -> None:
        config, module = self.config, self.module
        if getattr(module, "peft_config", None):
            raise ValueError(
                f"{type(module).__name__} has adapters already ({', '.join(module.peft_config)}): make them part of "
                "its weights first, with pipeline.fuse_lora() and pipeline.unload_lora_weights()"
            )
        targets = config.lora_targets or [
            name for name, part in module.named_modules() if isinstance(part, torch.nn.Linear) and _in_a_block(name)
        ]
        module.requires_grad_(False)
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)  # the same on every process
            module.add_adapter(
                LoraConfig(r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules=list(targets)), _ADAPTER
            )
        for weight in module.parameters():
            if weight.requires_grad:
                weight.data = weight.data.float()

    @contextmanager
    def _without_lora(self) -> Iterator[None]:
        self.module.disable_adapters()
        try:
            yield
        finally:
            self.module.enable_adapters()

    def _add_up(self) -> None:
        """Gradients over all processes, which learn from different numbers of rows, some perhaps from none."""
        grads = [torch.zeros_like(one) if one.grad is None else one.grad for one in self.weights]
        flat = self.accelerator.reduce(torch.cat([grad.flatten() for grad in grads]), "sum")
        parts = flat.split([grad.numel() for grad in grads])
        for weight, part in zip(self.weights, parts, strict=True):
            weight.grad = part.view_as(weight)

    def _samples(self, step: int, here: int) -> list[EditSample]:
        """What is asked for in a step of this process."""
        groups, count = self.config.groups, len(self.dataset)
        first = (step * self.accelerator.num_processes + here) * groups
        places = (divmod(place, count) for place in range(first, first + groups))
        return [self.dataset[int(_order(self.config.seed, around, count)[at])] for around, at in places]

    def _part(self, row: int) -> int:
        return row // self.config.group_size % self.config.updates

    def _started(self, step: int, thread: ThreadPoolExecutor) -> tuple[Batch, Future[Judged]]:
        batch = self.rollout(step)
        return batch, thread.submit(self._judged, batch.samples)

    def _judged(self, samples: Sequence[EditSample]) -> Judged:
        began = time.perf_counter()
        with untouched():
            scores = self.reward(samples)
            watching = self.accelerator.is_main_process
            heldout = self.heldout(samples) if watching and self.heldout is not None else None
        return Judged(scores, heldout, time.perf_counter() - began)

    def _log(self, numbers: dict[str, float], batch: Batch, judged: Judged) -> None:
        known = [score.value for score in judged.scores if score.value is not None]
        found = [Rollout(sample, score) for sample, score in zip(batch.samples, judged.scores, strict=True)]
        log = metrics(found) | numbers | ({"reward": fmean(known)} if known else {})
        if self.watch is not None and self.accelerator.is_main_process:
            log |= self.watch.step(batch.step, batch.samples, judged.scores, judged.heldout)
        if self.config.probe_every and (batch.step + 1) % self.config.probe_every == 0:
            log |= self._probe(batch.step)
        for callback in self.callbacks:
            log |= callback(self, batch.step, log) or {}
        everywhere = gather_object([log])
        names = dict.fromkeys(name for one in everywhere for name in one)
        means = {name: fmean(one[name] for one in everywhere if name in one) for name in names}
        self.log_history.append({"step": batch.step, **means})
        if self.accelerator.is_main_process:
            with (Path(self.config.output_dir) / "log.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(self.log_history[-1]) + "\n")
        if self.config.report_to:
            self.accelerator.log(means, step=batch.step)

    def _probe(self, step: int) -> dict[str, float]:
        """What the editor now makes of the probes, by both rewards. The main process looks."""
        if not self.accelerator.is_main_process or self.watch is None or self.heldout is None:
            return {}
        seeds = [_seed(self.config.seed, "probe", row) for row in range(len(self.probes))]
        drafts = [
            started(sample.sources, sample.instruction, Noise(seed), sample.earlier)
            for sample, seed in zip(self.probes, seeds, strict=True)
        ]

        def make(part: Sequence[Any]) -> Sequence[Any]:
            with self.accelerator.autocast(), torch.no_grad():
                return self.calls.pictures(part, [torch.Generator().manual_seed(one.noise.seed) for one in part])

        pictures = self.calls.each(drafts, make)
        samples = [replace(sample, edited=one) for sample, one in zip(self.probes, pictures, strict=True)]
        with untouched():
            return self.watch.probe(step, self.reward(samples), self.heldout(samples))

    # -- to go on another day ------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """The LoRA as `pipeline.load_lora_weights` reads it. By the main process; all have the same."""
        if not self.accelerator.is_main_process:
            return
        part = "unet" if self.module is getattr(self.pipeline, "unet", None) else "transformer"
        said = {
            f"{part}_lora_layers": get_peft_model_state_dict(self.module, adapter_name=_ADAPTER),
            f"{part}_lora_adapter_metadata": self.module.peft_config[_ADAPTER].to_dict(),
        }
        self.pipeline.save_lora_weights(folder, **said)

    def _saves(self, step: int) -> bool:
        return bool(self.config.save_every) and step % self.config.save_every == 0

    def _save(self) -> None:
        """A checkpoint; seen under its name only once it is complete."""
        folder = Path(self.config.output_dir)
        if self.accelerator.is_main_process:
            made = folder / f".{_CHECKPOINT}{self.step}"
            shutil.rmtree(made, ignore_errors=True)
            self.save(made)
            torch.save(self.optimizer.state_dict(), made / "optimizer.pt")
            state = {
                "step": self.step,
                "log": self.log_history,
                "watch": self.watch and self.watch.to_json(),
                "config": self._same(),
            }
            (made / "state.json").write_text(json.dumps(state), encoding="utf-8")
            named = folder / f"{_CHECKPOINT}{self.step}"
            shutil.rmtree(named, ignore_errors=True)
            made.rename(named)
            for old in _checkpoints(folder)[: -self.config.save_total]:
                shutil.rmtree(old)
        self.accelerator.wait_for_everyone()

    def _resume(self) -> None:
        if not (found := _checkpoints(Path(self.config.output_dir))):
            return
        state = json.loads((found[-1] / "state.json").read_text(encoding="utf-8"))
        now = self._same()
        if changed := [name for name in now if state["config"].get(name) != now[name]]:
            raise ValueError(
                f"{found[-1]} was made with other settings: "
                + ", ".join(f"{name} was {state['config'].get(name)} and is {now[name]}" for name in changed)
            )
        kept = load_file(found[-1] / "pytorch_lora_weights.safetensors")
        weights = {name.partition(".")[2]: weight for name, weight in kept.items()}
        set_peft_model_state_dict(self.module, weights, _ADAPTER)
        self.optimizer.load_state_dict(torch.load(found[-1] / "optimizer.pt", map_location="cpu", weights_only=True))
        self.step, self.log_history = state["step"], state["log"]
        if state["watch"] is not None:
            self.watch = Watch.from_json(state["watch"])

    def _same(self) -> dict[str, Any]:
        """What must not change between the parts of a run, as JSON gives it back."""
        free = ["output_dir", "save_every", "save_total", "report_to"]
        if self.config.schedule == "constant":  # else the rate depends on how many there are
            free.append("steps")
        kept = {name: value for name, value in asdict(self.config).items() if name not in free}
        found: dict[str, Any] = json.loads(json.dumps(kept, default=str))
        return found | {"processes": self.accelerator.num_processes, "samples": len(self.dataset)}


def _checkpoints(folder: Path) -> list[Path]:
    """Oldest first."""
    found = {path: path.name.removeprefix(_CHECKPOINT) for path in folder.glob(f"{_CHECKPOINT}*")}
    return sorted((path for path, step in found.items() if step.isdecimal()), key=lambda path: int(found[path]))


@lru_cache(maxsize=2)  # a step may end one round and begin the next
def _order(seed: int, around: int, count: int) -> NDArray[np.int64]:
    """In which order a dataset is gone through, the how-manyth time round."""
    return np.random.default_rng([seed, around]).permutation(count)


def _in_a_block(name: str) -> bool:
    """Whether a module is part of one of several alike, which a list of modules numbers."""
    return any(part.isdigit() for part in name.split("."))


def _seed(*numbers: int | str) -> int:
    """A seed for a row's noise; the same for the same numbers, in any process."""
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=6).digest(), "big")
