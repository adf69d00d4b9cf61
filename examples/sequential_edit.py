"""Sequential editing: the operations of a compound instruction one by one, with best of N in each step.

python examples/sequential_edit.py         # a tiny Kontext, a drawn scene, no download
"""

from editcritic.benchmarks.sceneedit import toy
from editcritic.integrations.diffusers import make_editor
from editcritic.reward import Reward
from editcritic.verifiers import BestOfN, Selector, SequentialEditing, select

drawn = toy(steps=2, seed=5)
(sample,) = drawn.samples  # its `operations` are the two instructions

# With a pipeline of your own: make_editor(pipeline, num_inference_steps=28).
editor = make_editor(drawn.pipeline(), batch_size=16, num_inference_steps=8)
# Scores each operation, and the preservation of the rest. Pass experts for your own images here.
reward = Reward.of("compound", drawn.experts)

selectors: dict[str, Selector] = {"step by step": SequentialEditing(n=4), "all at once": BestOfN(n=8)}
for name, selector in selectors.items():
    (selection,) = select(selector, sample, editor=editor, reward=reward)
    print(f"{name}: {selection.value} for {selection.spent.nfe} evaluations")
    for step in selection.steps:
        print(f"  step {step.step}: candidate {step.id}, {step.value}, {step.score.reason}")
    if selection.picture is not None:
        selection.picture.pil().save(f"{name.replace(' ', '-')}.png")
