"""Preference pairs for DPO: several edits of each picture, ranked by a reward, as rows that TRL's trainers take.

pip install 'editcritic[diffusers,trl]'
python examples/dpo_pairs.py
"""

import json
from pathlib import Path

from datasets import Dataset, load_from_disk

from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.sceneedit.learned.pipeline import load
from editcritic.benchmarks.selection.trials import single
from editcritic.integrations.diffusers.editor import editor_of
from editcritic.integrations.preferences import pairs
from editcritic.reward import Reward
from editcritic.verifiers import BestOf, select

samples = [trial.sample for trial in single(18, seed=0)]  # or your own, as `unedited` makes them
editor = editor_of(load())  # a tiny Kontext; or FluxKontextPipeline.from_pretrained(...)
reward = Reward.of("edit-balanced", experts())  # experts for its pictures; see docs/experts.md for yours

selections = select(BestOf(8), samples, editor=editor, reward=reward)
found = pairs(selections, margin=0.1, per_group=4)
print(len(found), "pairs; left out:", found.dropped)
earlier = sum(pair.chosen.position < pair.rejected.position for pair in found.pairs)
print(f"the chosen one was made earlier in {earlier} of them")

# A vision-language model learns to compare edits: DPOTrainer(model, train_dataset=load_from_disk("verdicts")).
Dataset.from_list(found.verdicts()).save_to_disk("verdicts")
first = load_from_disk("verdicts")[0]
print(len(first["images"]), "pictures; chosen:", first["chosen"][0]["content"], "margin:", round(first["margin"], 2))

# A diffusion editor learns from the pictures themselves.
Path("pictures").mkdir(exist_ok=True)
with Path("pairs.jsonl").open("w") as file:
    for number, row in enumerate(found.pictures()):
        names = {side: f"pictures/{number}-{side}.png" for side in ("source", "chosen", "rejected")}
        for side, picture in (("source", row["sources"][0]), ("chosen", row["chosen"]), ("rejected", row["rejected"])):
            picture.save(names[side])
        file.write(json.dumps({"instruction": row["instruction"], "margin": row["margin"], **names}) + "\n")
