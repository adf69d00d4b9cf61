"""Best of N with FLUX.1 Kontext: N edits of one picture, and the one with the highest score.

pip install 'editcritic[diffusers]'
python examples/best_of_n_kontext.py       # as it stands: a tiny Kontext, a drawn scene, nothing to download
python examples/best_of_n_kontext.py --pipeline black-forest-labs/FLUX.1-Kontext-dev --source mug.png \
    --instruction "Change the color of mug to green" --reward reward.toml
"""

import argparse
import random

import torch
from diffusers import FluxKontextPipeline

from editcritic.benchmarks.sceneedit.cases import asked
from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.sceneedit.learned.lessons import WORLD
from editcritic.benchmarks.sceneedit.learned.pipeline import TAUGHT
from editcritic.benchmarks.sceneedit.render import render
from editcritic.integrations.diffusers.editor import editor_of
from editcritic.reward import Reward
from editcritic.reward.spec import read
from editcritic.verifiers import BestOf, Budget, Journal, select, unedited

options = argparse.ArgumentParser(description="Best of N with FLUX.1 Kontext.")
options.add_argument("--pipeline", help="folder or hub id")
options.add_argument("--source")
options.add_argument("--instruction")
options.add_argument("--reward", help="a TOML file that binds experts which know your pictures")
options.add_argument("-n", type=int, default=8)
given = options.parse_args()

scene, request = asked(random.Random(2), WORLD, "color_alter")
# Boxes say what there is in the picture; see docs/metrics.md for what rewards make of them.
boxes = {} if given.source else scene.boxes()
sample = unedited(given.instruction or request.instruction, given.source or render(scene), boxes=boxes)
reward = Reward.of(read(given.reward)) if given.reward else Reward.of("edit-balanced", experts())

on_gpu = torch.cuda.is_available()
pipeline = FluxKontextPipeline.from_pretrained(
    given.pipeline or TAUGHT, torch_dtype=torch.bfloat16 if on_gpu else torch.float32
).to("cuda" if on_gpu else "cpu")
tiny = {"num_inference_steps": 8, "max_sequence_length": 24, "max_area": 32 * 32, "_auto_resize": False}
settings = {"num_inference_steps": 28, "guidance_scale": 2.5} if given.pipeline else tiny
editor = editor_of(pipeline, batch=4, height=sample.source.height, width=sample.source.width, **settings)

# Pictures, scores and answers are kept here: the same command again makes and asks nothing twice.
with Journal("best_of_n") as journal:
    budget = Budget(evaluations=given.n * editor.evaluations)
    (selection,) = select(BestOf(given.n), sample, editor=editor, reward=reward, budget=budget, journal=journal)
for candidate in selection.candidates:
    print(candidate.id, candidate.value, candidate.score.reason)
print(selection.why, "-", selection.spent)
if selection.picture is not None:
    selection.picture.pil().save("best.png")
