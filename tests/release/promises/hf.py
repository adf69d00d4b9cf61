"""`hf` loads models from folders: here tiny ones of real classes, with random weights."""

import json
from pathlib import Path

import torch
import transformers

from tests.reward.experts.tiny_clips import clip_config, clip_processor
from tests.reward.experts.tiny_vlms import tiny_llava

from .commands import draw, editcritic

draw()
tiny_llava(Path("judge"), spread=6.0)
torch.manual_seed(0)
transformers.CLIPModel(clip_config()).save_pretrained("clip")
clip_processor().save_pretrained("clip")
for reward, experts in {
    "judge-yes-no": "judge=vlm:./judge?min_option_mass=0",
    "clip-image": "features=clip:./clip",
}.items():
    editcritic("score", "samples.jsonl", "--reward", reward, "--experts", experts, "-o", f"{reward}.jsonl")
    (row,) = map(json.loads, Path(f"{reward}.jsonl").read_text(encoding="utf-8").splitlines())
    assert -1.0 < row["value"] < 1.0, row
editcritic("doctor", "--experts", "judge=vlm:./judge", "--experts", "features=clip:./clip")
