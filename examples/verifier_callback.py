"""Score previews of an edit during the pipeline call, and stop it if a verifier rejects them.

python examples/verifier_callback.py
python examples/verifier_callback.py --pipeline black-forest-labs/FLUX.1-Kontext-dev --image cat.png \
    --instruction "Make the cat orange" --judge Qwen/Qwen2.5-VL-7B-Instruct --steps 28 --preview-steps 8 14
"""

import argparse

import torch
from diffusers import DiffusionPipeline

from editcritic.benchmarks.sceneedit import toy
from editcritic.integrations.diffusers import VerifierCallback
from editcritic.reward import Reward
from editcritic.reward.experts.vlm import Vlm
from editcritic.verifiers import Verifier, at_least, edit_request

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--pipeline", help="name or folder of an editor (default: the tiny one of this package)")
parser.add_argument("--image", help="file to edit")
parser.add_argument("--instruction", help="edit instruction")
parser.add_argument("--judge", help="name or folder of a vision-language model")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--preview-steps", type=int, nargs="+", default=[3, 5], help="evaluations before a preview")
parser.add_argument("--seeds", type=int, default=8)
arguments = parser.parse_args()

if arguments.pipeline:
    pipeline = DiffusionPipeline.from_pretrained(arguments.pipeline, dtype=torch.bfloat16).to("cuda")
    sample = edit_request(arguments.instruction, arguments.image)
    reward = Reward.of("judge-yes-no", {"judge": Vlm(arguments.judge, dtype="bfloat16")})
else:
    drawn = toy(tasks=["color_alter"])
    pipeline, (sample,) = drawn.pipeline(), drawn.samples
    reward = Reward.of("judge-yes-no", drawn.experts)

verifier = Verifier(reward, at_least(0.5))
for seed in range(arguments.seeds):
    # One image per call: a batch is stopped only as a whole.
    with VerifierCallback(
        pipeline, verifier, sample, preview_steps=arguments.preview_steps, stop_on_reject=True
    ) as callback:
        image = pipeline(
            image=sample.source.pil(),
            prompt=sample.instruction,
            num_inference_steps=arguments.steps,
            generator=torch.Generator().manual_seed(seed),
            callback_on_step_end=callback,
            callback_on_step_end_tensor_inputs=callback.tensor_inputs,
        ).images[0]
    for (preview,), (decision,) in zip(callback.previews, callback.decisions, strict=True):
        print(
            f"seed {seed} after {preview.step} of {arguments.steps} evaluations: {decision.answer}, {decision.reason}"
        )
    if callback.stopped_at is None:
        image.save(f"edit-{seed}.png")
