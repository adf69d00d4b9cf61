"""Preference pairs for DPO: several edits of each image, ranked by a reward, as rows for TRL's trainers.

pip install 'editcritic[diffusers,trl]'
python examples/dpo_pairs.py
"""

import json
from pathlib import Path

from datasets import Dataset, load_from_disk

from editcritic.benchmarks.sceneedit import toy
from editcritic.integrations.trl import make_preference_pairs
from editcritic.reward import Reward
from editcritic.verifiers import BestOfN, select

drawn = toy(18)
samples = drawn.samples  # or your own, as `edit_request` makes them
editor = drawn.editor  # a tiny Kontext; or make_editor(FluxKontextPipeline.from_pretrained(...))
reward = Reward.of("any-edit", drawn.experts)  # experts for drawn images; see docs/experts.md for yours

selections = select(BestOfN(8), samples, editor=editor, reward=reward)
pairs = make_preference_pairs(selections, margin=0.1, max_per_group=4)
print(len(pairs), "pairs; dropped:", pairs.dropped)
earlier = sum(pair.chosen.position < pair.rejected.position for pair in pairs.pairs)
print(f"the chosen candidate comes first in {earlier} of them")

# To train a vision-language model to compare edits: DPOTrainer(model, train_dataset=load_from_disk("comparisons")).
Dataset.from_list(pairs.to_comparison_rows()).save_to_disk("comparisons")
first = load_from_disk("comparisons")[0]
print(len(first["images"]), "images; chosen:", first["chosen"][0]["content"], "margin:", round(first["margin"], 2))

# To train a diffusion editor on the images.
Path("images").mkdir(exist_ok=True)
with Path("pairs.jsonl").open("w") as file:
    for number, row in enumerate(pairs.to_image_rows()):
        names = {side: f"images/{number}-{side}.png" for side in ("source", "chosen", "rejected")}
        for side, image in (("source", row["sources"][0]), ("chosen", row["chosen"]), ("rejected", row["rejected"])):
            image.save(names[side])
        file.write(json.dumps({"instruction": row["instruction"], "margin": row["margin"], **names}) + "\n")
