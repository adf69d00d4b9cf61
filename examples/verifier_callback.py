"""Look at an edit while it is being made, and give up on it when nothing will come of it.

python examples/verifier_callback.py
python examples/verifier_callback.py --pipeline black-forest-labs/FLUX.1-Kontext-dev --picture cat.png \
    --instruction "Make the cat orange" --judge Qwen/Qwen2.5-VL-7B-Instruct --steps 28 --at 8 14
"""

import argparse
import random

import torch
from diffusers import DiffusionPipeline

from editcritic.benchmarks.sceneedit.cases import asked
from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.sceneedit.learned.lessons import WORLD
from editcritic.benchmarks.sceneedit.learned.pipeline import load
from editcritic.benchmarks.sceneedit.render import render
from editcritic.integrations.diffusers.callbacks import VerifierCallback
from editcritic.reward import Reward
from editcritic.reward.experts.vlm import Vlm
from editcritic.verifiers import Verifier, at_least, unedited

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--pipeline", help="name or folder of an editor (default: the tiny one of this package)")
parser.add_argument("--picture", help="file to edit")
parser.add_argument("--instruction", help="what is to be done")
parser.add_argument("--judge", help="name or folder of a vision-language model")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--at", type=int, nargs="+", default=[3, 5], help="denoiser evaluations after which to look")
parser.add_argument("--seeds", type=int, default=8)
given = parser.parse_args()

if given.pipeline:
    pipeline = DiffusionPipeline.from_pretrained(given.pipeline, dtype=torch.bfloat16).to("cuda")
    sample = unedited(given.instruction, given.picture)
    reward = Reward.of("judge-yes-no", {"judge": Vlm(given.judge, dtype="bfloat16")})
else:
    pipeline = load()
    scene, request = asked(random.Random(0), WORLD, "color_alter")
    sample = unedited(request.instruction, render(scene))
    reward = Reward.of("judge-yes-no", experts())

verifier = Verifier(reward, at_least(0.5))
for seed in range(given.seeds):
    # One picture a call: a batch is given up as a whole, or not at all.
    with VerifierCallback(pipeline, verifier, sample, at=given.at, stop=True) as look:
        image = pipeline(
            image=sample.source.pil(),
            prompt=sample.instruction,
            num_inference_steps=given.steps,
            generator=torch.Generator().manual_seed(seed),
            callback_on_step_end=look,
            callback_on_step_end_tensor_inputs=look.tensor_inputs,
        ).images[0]
    for (seen,), (decision,) in zip(look.looks, look.decisions, strict=True):
        print(f"seed {seed} after {seen.step} of {given.steps} evaluations: {decision.answer}, {decision.reason}")
    if look.stopped is None:
        image.save(f"edit-{seed}.png")
