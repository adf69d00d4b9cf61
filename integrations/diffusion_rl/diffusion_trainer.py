"""RL of diffusion editors with any reward: GRPO on flow-matching pipelines, DDPO on epsilon ones, NFT, RAFT.

    trainer = DiffusionTrainer(pipeline, Reward.of("any-edit", experts), samples, DiffusionConfig("run"))
    trainer.train()
    pipeline.load_lora_weights("run")  # later, in another process

A compact trainer of a LoRA, in the style of TRL, on diffusers, accelerate and peft; a reference implementation. Images
of the same sources and instruction form a group. The objective is the clipped PPO ratio over the sampler's steps
(Flow-GRPO: arXiv 2505.05470; DDPO: arXiv 2305.13301, section 4.3; see `transitions`), or one of `objectives`. With
`accelerate launch`, each process generates and scores whole groups; advantages and gradients are those of all.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor

from ...reward import BaseReward, EditSample, Score
from ...reward.atomic_files import named_if_full
from ...reward.training.audit_probe import AuditProbe
from ...reward.training.reward_hacking_monitor import RewardHackingMonitor
from ...verifiers.selection import NoiseSpec
from ..dataset_rows import score_usable
from ..diffusers.partial_denoising import initial_state
from ..diffusers.pipeline_calls import PipelineCaller
from ..diffusers.pipeline_families import family_of
from ..rng_state import preserve_rng_state
from ..trainers.trainer_reward import OUTAGE_TIMEOUT_S, score_with_retries, warn_if_collectives_end_first
from .across_processes import UpdateGuard, all_reduce_gradients, batch_advantages, means_over_processes, means_over_rows
from .checkpoints import add_lora, checkpoints, load_lora, newest_sound, save_lora, without_lora, write_checkpoint
from .config import DiffusionConfig
from .objectives import LossAndMetrics, grpo, nft, raft, raft_targets
from .trajectories import BatchScores, DenoisingStep, RolloutBatch, Trajectory, TrajectoryRecorder, denoiser
from .transitions import transitions_of

_log = logging.getLogger("editcritic.trainers")

ScoreFn = Callable[[Sequence[EditSample]], Sequence[Score]]
"""A `Reward`, or any callable with its signature."""

StepCallback = Callable[["DiffusionTrainer", int, dict[str, float]], Mapping[str, float] | None]
"""(trainer, step, metrics of that step), called after each step on every process; returned metrics are logged too."""


class DiffusionTrainer:
    """Trains a diffusers pipeline on the rewards of its images.

    Args:
        pipeline: Any that `make_editor` supports and whose solver is `FlowMatchEulerDiscreteScheduler` or
            `DDIMScheduler`, on its final device. Its weights are frozen except for a LoRA that is added to its
            transformer or UNet.
        reward: Called once per step with all images of a process; in an outage a reward does as its options say, and a
            callable is asked again for 480 s. Rows without a value are left out of the loss.
        dataset: The samples to edit (`edit_request`); shuffled in each epoch, from `seed`.
        heldout: A reward that is not trained on, for `monitor`; scores the same images.
        monitor: Raises alarms, on the main process and its own images; see `trainer.monitor.alarms`.
        probes: Samples edited from fixed noise before the first step and every `probe_steps` steps, for
            `monitor.observe_probe`; preferably 100 or more that are not trained on.
        audit_probe: Measures on the images of some steps what hacks would gain, for `monitor.observe_hacks`; on the
            main process, beside the scoring.

    Attributes:
        log_history: The metrics of each step, over the images of all processes: `reward`, `unscored`, `abstained`,
            `frac_reward_zero_std` and the other metrics of `Advantages`; for `grpo` `clip_ratio` (fraction of clipped
            ratios), `ratio_deviation` (mean distance of the ratio from 1), `kl` and `transition_kl` (what `beta` and
            `transition_kl_beta` weigh); for `nft` `mse` and `prediction_shift` (root mean square change of the
            prediction, in the denoiser's unit); for `raft` `mse`, and `frac_replaced` (fraction of images with another
            image as target); `grad_norm`, and the parts of a score (as in `integrations.trl`). `frac_nonfinite`:
            fraction of images whose latents became NaN or infinite, which take no part. `skipped_updates`: number of
            optimizer steps that were not made, since their gradient was NaN or infinite. Means over processes:
            `seconds/*`, and the metrics of `monitor` and the callbacks. A number that is not finite is left out.
    """

    def __init__(
        self,
        pipeline: Any,
        reward: ScoreFn,
        dataset: Sequence[EditSample],
        config: DiffusionConfig,
        *,
        heldout: ScoreFn | None = None,
        monitor: RewardHackingMonitor | None = None,
        probes: Sequence[EditSample] = (),
        audit_probe: AuditProbe | None = None,
        callbacks: Sequence[StepCallback] = (),
    ) -> None:
        if not len(dataset):
            raise ValueError("the dataset is empty: pass at least one sample")
        if monitor is None and (heldout is not None or audit_probe is not None):
            given = "a held-out reward" if heldout is not None else "an audit probe"
            raise ValueError(f"{given} is for the monitor: pass monitor=RewardHackingMonitor() with it")
        if bool(probes) != bool(config.probe_steps) or (probes and heldout is None):
            raise ValueError("probes need a held-out reward: pass probes=, heldout= and probe_steps together")
        family = family_of(pipeline)
        if family is None or family.single_pass_reason:
            reason = (
                family.single_pass_reason if family else "it is not among editcritic.integrations.diffusers.FAMILIES"
            )
            raise ValueError(f"{type(pipeline).__name__} cannot be trained here: {reason}")
        self.transitions = transitions_of(pipeline, config.noise_level, config.sampling)
        self.config, self.pipeline, self.reward, self.dataset = config, pipeline, reward, dataset
        self.heldout, self.monitor, self.probes, self.callbacks = heldout, monitor, probes, callbacks
        self.audit_probe = audit_probe
        warn_if_collectives_end_first(getattr(reward, "outage_timeout_s", OUTAGE_TIMEOUT_S))
        self.accelerator = Accelerator(
            mixed_precision=config.mixed_precision, log_with=config.report_to, project_dir=str(config.output_dir)
        )
        self.calls = PipelineCaller(pipeline, family, config.rollout_batch_size, config.pipeline_kwargs)
        module = denoiser(pipeline)
        self.denoiser: Any = getattr(module, "_orig_mod", module)  # uncompiled: it has the adapter methods of peft
        add_lora(self.denoiser, config)
        self._without_lora = partial(without_lora, self.denoiser)
        named_weights = {name: weight for name, weight in self.denoiser.named_parameters() if weight.requires_grad}
        self.weights = list(named_weights.values())
        self._guard = UpdateGuard(self.accelerator, named_weights)
        self.optimizer = torch.optim.AdamW(self.weights, lr=config.learning_rate, weight_decay=config.weight_decay)
        self.log_history: list[dict[str, float]] = []
        self.step = 0

    # -- training ------------------------------------------------------------------------------------------------------

    def train(self, *, resume: bool = False) -> list[dict[str, float]]:
        """Run all steps and save the LoRA; returns `log_history`.

        Raises FloatingPointError, before anything is saved, once the gradient of three optimizer steps in a row is NaN
        or infinite; the weights stay finite.

        Args:
            resume: From the newest sound checkpoint in `output_dir`, if there is one; a warning names those that were
                left out.

        Raises:
            ValueError: If it was made with another configuration, if none is sound, and if there is one without
                `resume`.
        """
        config, folder = self.config, Path(self.config.output_dir)
        if resume:
            self._resume()
        elif not self.step and (existing := checkpoints(folder)):
            raise ValueError(f"{existing[-1]} is of an earlier run: resume with train(resume=True), or delete it")
        if self.accelerator.is_main_process:
            folder.mkdir(parents=True, exist_ok=True)
            lines = "".join(json.dumps(row, allow_nan=False) + "\n" for row in self.log_history)
            (folder / "log.jsonl").write_text(lines, encoding="utf-8")
        if config.report_to:
            self.accelerator.init_trackers("editcritic")
        if config.probe_steps and not self.step:
            self._probe(-1)
        with ThreadPoolExecutor(1, "judge") as executor:
            next_rollout: tuple[RolloutBatch, Future[BatchScores]] | None = None
            while self.step < config.max_steps:
                batch, scoring = next_rollout or self._start_step(self.step, executor)
                has_next = self.step + 1 < config.max_steps and not self._saves_at(self.step + 1)
                next_rollout = self._start_step(self.step + 1, executor) if config.overlap and has_next else None
                start = time.perf_counter()
                batch_scores = scoring.result()
                wait_s = time.perf_counter() - start
                seconds = {"rollout": batch.seconds, "reward": batch_scores.seconds, "wait": wait_s}
                log = {f"seconds/{name}": value for name, value in seconds.items()}
                self._log(log | self.update(batch, batch_scores.scores), batch, batch_scores)
                self.step += 1
                if self._saves_at(self.step):
                    self._save()
        self.save(folder)
        self.accelerator.wait_for_everyone()
        if config.report_to:
            self.accelerator.end_training()
        return self.log_history

    def rollout(self, step: int) -> RolloutBatch:
        """Generate the images of a step with the current weights, and record what the update needs."""
        start = time.perf_counter()
        config, process = self.config, self.accelerator.process_index
        requests = [
            (sample, group * config.group_size + number)
            for group, sample in enumerate(self._samples(step, process))
            for number in range(config.group_size)
        ]
        states = [_state_of(sample, _derived_seed(config.seed, step, process, row)) for sample, row in requests]
        sde_steps, kept_steps = config.sde_steps, ()
        if config.objective != "grpo":  # the pipeline's own sampler; images are noised afterwards, to these levels
            rng = np.random.default_rng([config.seed, step])
            count = self.calls.nfe
            sde_steps, kept_steps = (), rng.choice(count, min(config.num_noise_levels, count), replace=False).tolist()
        calls: list[tuple[Trajectory, list[int]]] = []
        row_of = {id(state): row for row, state in enumerate(states)}

        def generate(batch: Sequence[Any]) -> Sequence[Any]:
            rows = [row_of[id(state)] for state in batch]
            generators = [torch.Generator().manual_seed(state.noise.seed) for state in batch]
            initial_generators = generators
            if config.init_same_noise:
                group_seeds = [
                    _derived_seed(config.seed, step, process, "group", row // config.group_size) for row in rows
                ]
                initial_generators = [torch.Generator().manual_seed(seed) for seed in group_seeds]
            recorder = TrajectoryRecorder(
                self.pipeline, self.transitions, generators, sde_steps, config.pipeline_kwargs, kept_steps=kept_steps
            )
            with self.accelerator.autocast(), recorder as trajectory:  # as in the training passes
                images = self.calls.generate(batch, initial_generators)
            if not trajectory.steps:
                num_steps = len(self.pipeline.scheduler.timesteps)
                raise ValueError(
                    f"none of {num_steps} steps samples with noise (the last has none): sde_steps={config.sde_steps}"
                )
            calls.append((trajectory, rows))
            return images

        images = self.calls.map_batches(states, generate)
        samples = [
            replace(sample, id=f"{sample.id}/{step}/{row}", edited=sample.source if isinstance(image, str) else image)
            for (sample, row), image in zip(requests, images, strict=True)
        ]
        failures = {row: image for row, image in enumerate(images) if isinstance(image, str)}
        batch = RolloutBatch(step, samples, calls, time.perf_counter() - start, failures)
        batch.failures |= batch.nonfinite
        return batch

    def update(self, batch: RolloutBatch, scores: Sequence[Score]) -> dict[str, float]:
        """The optimizer steps for a scored batch; returns metrics, over the images of all processes."""
        start, config = time.perf_counter(), self.config
        lowest = self.reward.card.range[0] if isinstance(self.reward, BaseReward) else None
        process = self.accelerator.process_index
        group_advantages, score_log = batch_advantages(batch, scores, config, process, lowest)
        collected: dict[str, list[tuple[float, int]]] = {}  # values and the number of rows that each is the mean of
        targets = None
        if config.objective == "raft":
            targets = raft_targets(batch.calls, group_advantages, config.group_size, config.max_spread_ratio)
        trained = set(np.flatnonzero(group_advantages.informative).tolist() if targets is None else targets)
        skipped = 0
        if score_log["frac_nonfinite"] == 1.0:
            skipped += 1
            self._guard.skip(f"step {batch.step}", "the latents of all edits are NaN or infinite")
        for mini_batch in range(config.num_mini_batches):
            in_mini_batch = {row for row in trained if row // config.group_size % config.num_mini_batches == mini_batch}
            chunks = [
                (call, [(index, row) for index, row in enumerate(rows) if row in in_mini_batch])
                for call, rows in batch.calls
            ]
            count = sum(len(rows) * len(trajectory.steps) for trajectory, rows in chunks)
            total = int(self.accelerator.reduce(torch.tensor(count, device=self.accelerator.device), "sum"))
            if not total:
                continue
            of_mini_batch: dict[str, list[tuple[float, int]]] = {}
            nonfinite_losses: list[str] = []
            for trajectory, rows in chunks:
                for offset in range(0, len(rows), config.train_batch_size):
                    indices, batch_rows = zip(*rows[offset : offset + config.train_batch_size], strict=True)
                    if targets is None:
                        values = torch.tensor(group_advantages.values[list(batch_rows)], dtype=torch.float32)
                    else:
                        values = torch.stack([targets[row][1] for row in batch_rows])
                    for step in trajectory.steps:
                        loss, metrics = self._loss(trajectory, step, indices, values)
                        (loss.sum() / total).backward()
                        for name, value in metrics.items():
                            of_mini_batch.setdefault(name, []).append((value, len(batch_rows)))
                        nonfinite_losses += [
                            f"{batch.samples[row].id} at sampler step {step.index}"
                            for row, is_finite in zip(batch_rows, torch.isfinite(loss).tolist(), strict=True)
                            if not is_finite
                        ]
            all_reduce_gradients(self.accelerator, self.weights)
            norm = torch.nn.utils.get_total_norm([weight.grad for weight in self.weights if weight.grad is not None])
            if self._guard.skips(float(norm), f"step {batch.step}, mini-batch {mini_batch}", nonfinite_losses):
                skipped += 1
            else:
                torch.nn.utils.clip_grads_with_norm_(self.weights, config.max_grad_norm, norm)
                for name, pairs in [*of_mini_batch.items(), ("grad_norm", [(float(norm), 1)])]:
                    collected.setdefault(name, []).extend(pairs)
                for group in self.optimizer.param_groups:
                    group["lr"] = config.learning_rate * self._lr_factor()
                self.optimizer.step()
            self.optimizer.zero_grad()
        if targets is not None:
            replaced = sum(row != target for row, (target, _) in targets.items()) / len(batch.samples)
            collected["frac_replaced"] = [(replaced, len(batch.samples))]
        seconds = time.perf_counter() - start
        return score_log | means_over_rows(collected) | {"skipped_updates": float(skipped), "seconds/update": seconds}

    def _lr_factor(self) -> float:
        config = self.config
        decay = 1 - self.step / config.max_steps if config.lr_scheduler_type == "linear" else 1.0
        return min(1.0, (self.step + 1) / (config.warmup_steps + 1)) * decay

    def _loss(self, trajectory: Trajectory, step: DenoisingStep, rows: Sequence[int], values: Tensor) -> LossAndMetrics:
        config = self.config
        with self.accelerator.autocast():
            if config.objective == "raft":
                return raft(trajectory, step, rows, values, self._without_lora, config.huber_c, config.beta)
            if config.objective == "grpo":
                weights = (config.clip_range, config.beta, config.transition_kl_beta)
                return grpo(trajectory, step, rows, values, self._without_lora, *weights)
            is_held = step.forward_process.noise < config.min_noise_level
            optimality = 0.5 + (0.0 if is_held else 1.0) * values / (2 * config.advantage_clip)
            seed = _derived_seed(config.seed, self.step, self.accelerator.process_index, step.index, *rows[:1])
            return nft(trajectory, step, rows, optimality, self._without_lora, config.nft_beta, seed)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _samples(self, step: int, process: int) -> list[EditSample]:
        groups, count = self.config.groups, len(self.dataset)
        first = (step * self.accelerator.num_processes + process) * groups
        positions = (divmod(position, count) for position in range(first, first + groups))
        return [
            self.dataset[int(_epoch_permutation(self.config.seed, epoch, count)[index])] for epoch, index in positions
        ]

    def _start_step(self, step: int, executor: ThreadPoolExecutor) -> tuple[RolloutBatch, Future[BatchScores]]:
        batch = self.rollout(step)
        return batch, executor.submit(self._score, batch)

    def _score(self, batch: RolloutBatch) -> BatchScores:
        start = time.perf_counter()
        with preserve_rng_state():
            scores = score_with_retries(self.reward, batch.rows, OUTAGE_TIMEOUT_S)
            is_main = self.accelerator.is_main_process
            heldout = score_usable(self.heldout, batch.rows) if is_main and self.heldout is not None else None
            gains = None
            if is_main and self.audit_probe is not None:
                gains = self.audit_probe(batch.step, batch.made(batch.samples), batch.made(scores))
        return BatchScores(scores, heldout, gains, time.perf_counter() - start)

    def _log(self, metrics: dict[str, float], batch: RolloutBatch, batch_scores: BatchScores) -> None:
        log = dict(metrics)
        if self.monitor is not None and self.accelerator.is_main_process:
            samples, scores = batch.made(batch.samples), batch.made(batch_scores.scores)
            heldout = None if batch_scores.heldout is None else batch.made(batch_scores.heldout)
            observed = self.monitor.observe(batch.step, samples, scores, heldout)
            log = observed | log  # of equal names, as `reward`, those of all processes
            if batch_scores.gains is not None:
                log |= self.monitor.observe_hacks(batch.step, batch_scores.gains)
        if self.config.probe_steps and (batch.step + 1) % self.config.probe_steps == 0:
            log |= self._probe(batch.step)
        for callback in self.callbacks:
            log |= callback(self, batch.step, log) or {}
        means = means_over_processes(log)
        self.log_history.append({"step": batch.step, **means})
        if self.accelerator.is_main_process:
            path = Path(self.config.output_dir) / "log.jsonl"
            with named_if_full(path), path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(self.log_history[-1], allow_nan=False) + "\n")
        if self.config.report_to:
            self.accelerator.log(means, step=batch.step)

    def _probe(self, step: int) -> dict[str, float]:
        """Edit the probes and score them with both rewards, on the main process."""
        if not self.accelerator.is_main_process or self.monitor is None or self.heldout is None:
            return {}
        states = [
            _state_of(sample, _derived_seed(self.config.seed, "probe", row)) for row, sample in enumerate(self.probes)
        ]

        def generate(batch: Sequence[Any]) -> Sequence[Any]:
            with self.accelerator.autocast(), torch.no_grad():
                return self.calls.generate(batch, [torch.Generator().manual_seed(state.noise.seed) for state in batch])

        images = self.calls.map_batches(states, generate)
        rows = [
            image if isinstance(image, str) else replace(sample, edited=image)
            for sample, image in zip(self.probes, images, strict=True)
        ]
        with preserve_rng_state():
            return self.monitor.observe_probe(step, score_usable(self.reward, rows), score_usable(self.heldout, rows))

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Save the LoRA for `pipeline.load_lora_weights`, on the main process; all processes have the same weights."""
        if self.accelerator.is_main_process:
            save_lora(self.pipeline, self.denoiser, folder)

    def _saves_at(self, step: int) -> bool:
        return bool(self.config.save_steps) and step % self.config.save_steps == 0

    def _save(self) -> None:
        if self.accelerator.is_main_process:
            state = {
                "global_step": self.step,
                "log_history": self.log_history,
                "monitor": self.monitor and self.monitor.to_json(),
                "config": self._resume_config(),
            }
            folder = Path(self.config.output_dir)
            write_checkpoint(folder, state, self.optimizer, self.save, self.config.save_total_limit)
        self.accelerator.wait_for_everyone()

    def _resume(self) -> None:
        checkpoint, left_out = newest_sound(Path(self.config.output_dir))
        if checkpoint is None:
            return
        if left_out and self.accelerator.is_main_process:
            _log.warning("resuming from %s; newer and left out: %s", checkpoint.path, "; ".join(left_out))
        config = self._resume_config()
        if changed := [name for name in config if checkpoint.config.get(name) != config[name]]:
            raise ValueError(
                f"{checkpoint.path} was made with another configuration: "
                + ", ".join(f"{name} was {checkpoint.config.get(name)} and is {config[name]}" for name in changed)
            )
        load_lora(self.denoiser, checkpoint.lora)
        self.optimizer.load_state_dict(checkpoint.optimizer)
        self.step, self.log_history = checkpoint.step, checkpoint.log_history
        if checkpoint.monitor is not None:
            self.monitor = checkpoint.monitor

    def _resume_config(self) -> dict[str, Any]:
        """The configuration that must not change within a run, as JSON."""
        may_change = ["output_dir", "save_steps", "save_total_limit", "report_to"]
        if self.config.lr_scheduler_type == "constant":  # else the learning rate depends on it
            may_change.append("max_steps")
        fixed = {name: value for name, value in asdict(self.config).items() if name not in may_change}
        as_json: dict[str, Any] = json.loads(json.dumps(fixed, default=str), parse_constant=str)  # as max_grad_norm=inf
        return as_json | {"processes": self.accelerator.num_processes, "samples": len(self.dataset)}


@lru_cache(maxsize=2)  # one step may span two epochs
def _epoch_permutation(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(count)


def _state_of(sample: EditSample, seed: int) -> Any:
    return initial_state(sample.sources, sample.instruction, NoiseSpec(seed), sample.history)


def _derived_seed(*parts: int | str) -> int:
    """A seed for the noise of a row: equal for equal parts, in any process."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=6).digest(), "big")
