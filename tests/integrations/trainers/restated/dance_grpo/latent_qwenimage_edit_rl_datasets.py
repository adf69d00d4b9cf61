"""The prepared rows. No collate function is used: torch's default makes lists of strings and tensors of numbers."""

# ruff: noqa: E501, PTH118, PTH120, PTH123
# mypy: ignore-errors
# fmt: off

import json
import os

import torch
from torch.utils.data import Dataset


class LatentDataset(Dataset):
    def __init__(self, json_path, num_latent_t, cfg_rate):
        self.folder = os.path.dirname(json_path)
        self.num_latent_t, self.cfg_rate = num_latent_t, cfg_rate
        with open(json_path) as f:
            self.data_anno = json.load(f)

    def __getitem__(self, idx):
        prompt_embed, prompt_attention_mask, image_latents = (
            torch.load(os.path.join(self.folder, folder, self.data_anno[idx][key]), weights_only=True)
            for folder, key in (
                ("prompt_embed", "prompt_embed_path"),
                ("prompt_attention_mask", "prompt_attention_mask"),
                ("image_latents", "image_latents"),
            )
        )
        return prompt_embed, prompt_attention_mask, image_latents, self.data_anno[idx]['caption'], self.data_anno[idx]['original_length'], self.data_anno[idx]['calculated_height'], self.data_anno[idx]['calculated_width']

    def __len__(self):
        return len(self.data_anno)
