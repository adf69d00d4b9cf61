"""A step samples groups one image at a time, scores each, and takes an optimizer step with clipped ratios.

The transformer is handed in, and wrapped by nothing; wandb is a list. Sampling is theirs without its solver and the
embeddings of prompts: what comes after it needs latents and log-probabilities of the same shapes.
"""

# ruff: noqa: E501, F821, F841, I001, PTH123, RUF012, T201
# mypy: ignore-errors
# fmt: off

import math
import os

import torch
import torch.distributed as dist
from diffusers.image_processor import VaeImageProcessor
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import copy

CHANNELS = 16


class wandb:
    logged: list = []

    @classmethod
    def log(cls, values, step):
        cls.logged.append(copy.copy(values))


def run_sample_step(args, z, transformer, image_latents):
    """(z, the predicted image's latents, B x steps + 1 x L x C, B x steps)."""
    latents, log_probs = [z], []
    for _ in range(args.sampling_steps):
        mean = transformer(torch.cat([z, image_latents], dim=1))[:, : z.shape[1]]
        z = (mean + args.eta * torch.randn_like(mean)).to(torch.float32)
        latents.append(z)
        log_probs.append(log_prob(args, mean, z))
    return z, mean, torch.stack(latents, dim=1), torch.stack(log_probs, dim=1)


def log_prob(args, mean, sample):
    squares = (sample.detach() - mean.to(torch.float32)) ** 2 / (2 * args.eta**2)
    return (-squares - math.log(args.eta)).mean(dim=tuple(range(1, mean.ndim)))


def grpo_one_step(args, latents, next_latents, image_latents, transformer):
    mean = transformer(torch.cat([latents, image_latents], dim=1))[:, : latents.shape[1]]
    return log_prob(args, mean, next_latents)


def sample_reference_model(args, device, transformer, vae, prompt_attention_masks, image_latents, reward_model, caption):
    B = len(caption)
    all_latents, all_log_probs, all_rewards, all_txt_seq_lens, all_image_latents = [], [], [], [], []
    for index, batch_idx in enumerate(torch.chunk(torch.arange(B), B)):
        input_latents = torch.randn((1, 4, CHANNELS), device=device)
        image_latents_new = image_latents[batch_idx].flatten(2).transpose(1, 2).flatten(2)
        with torch.no_grad():
            _, latents, batch_latents, batch_log_probs = run_sample_step(args, input_latents, transformer, image_latents_new)
        all_latents.append(batch_latents)
        all_log_probs.append(batch_log_probs)
        all_txt_seq_lens.append(prompt_attention_masks[batch_idx].sum(dim=1))
        all_image_latents.append(image_latents_new)
        image_processor = VaeImageProcessor(16)
        rank = int(os.environ["RANK"])
        with torch.inference_mode():
            decoded_image = image_processor.postprocess(vae.decode(latents, return_dict=False)[0][:, :, 0])
        decoded_image[0].save(f"./images/qwenimage_{rank}_{index}.png")

    all_latents = torch.cat(all_latents, dim=0)
    all_log_probs = torch.cat(all_log_probs, dim=0)
    all_rewards = torch.cat(all_rewards, dim=0)
    all_txt_seq_lens = torch.cat(all_txt_seq_lens, dim=0)
    return all_rewards, all_latents, all_log_probs, all_txt_seq_lens, torch.cat(all_image_latents, dim=0)


def gather_tensor(tensor):
    gathered_tensors = [torch.zeros_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered_tensors, tensor)
    return torch.cat(gathered_tensors, dim=0)


def train_one_step(args, device, transformer, vae, reward_model, optimizer, lr_scheduler, prompt_attention_masks, caption, image_latents, max_grad_norm):
    total_loss = 0.0
    prompt_attention_masks = torch.repeat_interleave(prompt_attention_masks, args.num_generations, dim=0)
    image_latents = torch.repeat_interleave(image_latents, args.num_generations, dim=0)
    if not isinstance(caption, list):
        raise ValueError(f"Unsupported caption type: {type(caption)}")
    caption = [item for item in caption for _ in range(args.num_generations)]

    reward, all_latents, all_log_probs, _, all_image_latents = sample_reference_model(
        args, device, transformer, vae, prompt_attention_masks, image_latents, reward_model, caption
    )
    batch_size = all_latents.shape[0]
    samples = {
        "latents": all_latents[:, :-1][:, :-1],
        "next_latents": all_latents[:, 1:][:, :-1],
        "log_probs": all_log_probs[:, :-1],
        "rewards": reward.to(torch.float32),
        "image_latents": all_image_latents,
    }
    gathered_reward = gather_tensor(samples["rewards"])
    if dist.get_rank() == 0:
        print("gathered_reward", gathered_reward)
        with open("./reward.txt", "a") as f:
            f.write(f"{gathered_reward.mean().item()}\n")

    groups = samples["rewards"].split(args.num_generations)
    samples["advantages"] = torch.cat([(group - group.mean()) / (group.std() + 1e-8) for group in groups])

    perms = torch.stack(
        [torch.randperm(len(samples["log_probs"][0])) for _ in range(batch_size)]
    ).to(device)
    for key in ["latents", "next_latents", "log_probs"]:
        samples[key] = samples[key][torch.arange(batch_size)[:, None], perms]
    train_timesteps = int(len(samples["log_probs"][0]) * args.timestep_fraction)
    for i in range(batch_size):
        sample = {key: tensor[i : i + 1] for key, tensor in samples.items()}
        for step in range(train_timesteps):
            new_log_probs = grpo_one_step(
                args, sample["latents"][:, step], sample["next_latents"][:, step], sample["image_latents"], transformer
            )
            advantages = torch.clamp(sample["advantages"], -args.adv_clip_max, args.adv_clip_max)
            ratio = torch.exp(new_log_probs - sample["log_probs"][:, step])
            clipped = torch.clamp(ratio, 1.0 - args.clip_range, 1.0 + args.clip_range)
            loss = torch.mean(torch.maximum(-advantages * ratio, -advantages * clipped))
            loss = loss / (args.gradient_accumulation_steps * train_timesteps)
            loss.backward()
            avg_loss = loss.detach().clone()
            dist.all_reduce(avg_loss, op=dist.ReduceOp.SUM)  # AVG there, which gloo has not
            total_loss += avg_loss.item() / dist.get_world_size()
        if (i + 1) % args.gradient_accumulation_steps == 0:
            grad_norm = torch.nn.utils.clip_grad_norm_(transformer.parameters(), max_grad_norm)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
        if dist.get_rank() % 8 == 0:
            print("reward", sample["rewards"].item())
            print("advantage", sample["advantages"].item())
        dist.barrier()
    return total_loss, grad_norm.item()


def main(args, transformer, vae, dataset):
    rank = int(os.environ["RANK"])
    device = torch.device("cpu")
    processor = None
    if args.use_hpsv2:
        raise NotImplementedError("it sets reward_model, processor and preprocess_val")
    optimizer = torch.optim.AdamW(transformer.parameters(), lr=args.learning_rate, weight_decay=0.0001)
    lr_scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    train_dataset = dataset.LatentDataset(args.data_json_path)
    sampler = DistributedSampler(train_dataset, rank=rank, num_replicas=dist.get_world_size(), shuffle=False)
    train_dataloader = PinnedLoader(train_dataset, sampler=sampler, batch_size=args.train_batch_size, drop_last=True)
    for step, (prompt_attention_masks, image_latents, caption) in enumerate(train_dataloader):
        loss, grad_norm = train_one_step(
            args, device, transformer, vae, reward_model, optimizer, lr_scheduler, prompt_attention_masks, caption,
            image_latents, args.max_grad_norm
        )
        progress_bar = Progress()
        progress_bar.update(1)
        if rank <= 0:
            wandb.log(
                {
                    "train_loss": loss,
                    "learning_rate": lr_scheduler.get_last_lr()[0],
                    "grad_norm": grad_norm,
                },
                step=step,
            )


class PinnedLoader(DataLoader):
    """pin_memory, which there is none of without a GPU, makes lists of the tuples of strings."""

    def __iter__(self):
        for row in super().__iter__():
            yield [list(value) if isinstance(value, tuple) else value for value in row]


class Progress:
    def update(self, count):
        pass
