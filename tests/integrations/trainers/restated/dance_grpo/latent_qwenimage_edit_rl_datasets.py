"""The prepared rows. No collate function is used: torch's default makes lists of strings and tensors of numbers."""

# ruff: noqa: PTH118, PTH120, PTH123
# mypy: ignore-errors
# fmt: off

import json
import os

import torch
from torch.utils.data import Dataset


class LatentDataset(Dataset):
    def __init__(self, json_path):
        self.folder = os.path.dirname(json_path)
        with open(json_path) as f:
            self.data_anno = json.load(f)

    def __getitem__(self, idx):
        prompt_attention_mask, image_latents = (
            torch.load(os.path.join(self.folder, key, self.data_anno[idx][key]), weights_only=True)
            for key in ("prompt_attention_mask", "image_latents")
        )
        return prompt_attention_mask, image_latents, self.data_anno[idx]['caption']

    def __len__(self):
        return len(self.data_anno)
