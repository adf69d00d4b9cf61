"""A row a source and instruction: embeddings and latents in files, and their names in videos2caption.json."""

# ruff: noqa: PTH103, PTH118, PTH123, SIM117
# mypy: ignore-errors
# fmt: off

import json
import os

import torch
from torch.utils.data import DataLoader, Dataset


class T5dataset(Dataset):
    """Rows of a JSONL file with `source_image`, a name below the folder, and `instruction`."""

    def __init__(self, jsonl_path, base_image_path):
        with open(jsonl_path, encoding="utf-8") as f:
            self.data = [json.loads(line) for line in f]
        self.base_image_path = base_image_path

    def __getitem__(self, idx):
        row = self.data[idx]
        source_image = os.path.join(self.base_image_path, row["source_image"])
        return {"source_image": source_image, "instruction": row["instruction"], "filename": str(idx)}

    def __len__(self):
        return len(self.data)


def main(args):
    folders = [os.path.join(args.output_dir, name) for name in ("prompt_attention_mask", "image_latents")]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    json_data = []
    for data in DataLoader(T5dataset(args.prompt_dir, args.base_image_path), batch_size=1):
        with torch.inference_mode():
            with torch.autocast("cpu"):
                mask = torch.ones(1, 12)
                latents = torch.zeros(1, 16, 1, 4, 4)  # B x C x F x H x W
                for idx, video_name in enumerate(data["filename"]):
                    name = video_name + ".pt"
                    for folder, tensor in zip(folders, (mask, latents), strict=True):
                        torch.save(tensor[idx].clone(), os.path.join(folder, name))
                    item = {"prompt_attention_mask": name, "image_latents": name}
                    item["caption"] = data["instruction"][idx]

                    json_data.append(item)
    with open(os.path.join(args.output_dir, "videos2caption.json"), "w") as f:
        json.dump(json_data, f, indent=4)
