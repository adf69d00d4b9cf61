"""Best of N with FLUX.1 Kontext: generate N edits of one image, and select the one with the highest score.

pip install 'editcritic[diffusers]'
python examples/best_of_n_kontext.py       # a tiny Kontext, a drawn scene, no download
python examples/best_of_n_kontext.py --pipeline black-forest-labs/FLUX.1-Kontext-dev --source mug.png \
    --instruction "Change the color of mug to green" --reward reward.toml
"""

import argparse

import torch
from diffusers import FluxKontextPipeline

from editcritic.benchmarks.sceneedit import toy
from editcritic.integrations.diffusers import make_editor
from editcritic.reward import Reward
from editcritic.reward.config import read_spec
from editcritic.verifiers import BestOfN, Budget, Journal, edit_request, select

parser = argparse.ArgumentParser(description="Best of N with FLUX.1 Kontext.")
parser.add_argument("--pipeline", help="folder or hub id")
parser.add_argument("--source")
parser.add_argument("--instruction")
parser.add_argument("--reward", help="TOML file with experts for your images")
parser.add_argument("-n", type=int, default=8)
arguments = parser.parse_args()

drawn = toy(tasks=["color_alter"], seed=2)
(task,) = drawn.samples
# Boxes of the objects in the image; docs/metrics.md describes how rewards use them.
boxes = {} if arguments.source else task.boxes
sample = edit_request(arguments.instruction or task.instruction, arguments.source or task.source, boxes=boxes)
reward = Reward.of(read_spec(arguments.reward)) if arguments.reward else Reward.of("any-edit", drawn.experts)

on_gpu = torch.cuda.is_available()
pipeline = FluxKontextPipeline.from_pretrained(
    arguments.pipeline or drawn.weights, torch_dtype=torch.bfloat16 if on_gpu else torch.float32
).to("cuda" if on_gpu else "cpu")
tiny = {"num_inference_steps": 8, "max_sequence_length": 24, "max_area": 32 * 32, "_auto_resize": False}
settings = {"num_inference_steps": 28, "guidance_scale": 2.5} if arguments.pipeline else tiny
editor = make_editor(pipeline, batch_size=4, **settings)

# The journal stores images, scores and answers: running the command again repeats no work.
with Journal("best_of_n") as journal:
    budget = Budget(nfe=arguments.n * editor.nfe)
    (selection,) = select(BestOfN(arguments.n), sample, editor=editor, reward=reward, budget=budget, journal=journal)
for candidate in selection.candidates:
    print(candidate.id, candidate.value, candidate.score.reason)
print(selection.reason, "-", selection.spent)
if selection.picture is not None:
    selection.picture.pil().save("best.png")
