"""Step by step: a compound instruction taken apart, with the best of several candidates after each step.

python examples/sequential_edit.py         # a tiny Kontext, a drawn scene, nothing to download
"""

import random

from editcritic.benchmarks.sceneedit.compounds import random_compound
from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.sceneedit.learned.lessons import WORLD
from editcritic.benchmarks.sceneedit.learned.pipeline import STEPS, load
from editcritic.benchmarks.sceneedit.render import render
from editcritic.integrations.diffusers.editor import editor_of
from editcritic.reward import Operation, Reward
from editcritic.verifiers import BestOf, Selector, Sequential, select, unedited

asked = random_compound(random.Random(5), 2, WORLD)
operations = tuple(Operation(step.instruction) for step in asked.steps)
sample = unedited(asked.instruction, render(asked.scene), operations=operations, boxes=asked.scene.boxes())

# With a pipeline of your own: editor_of(pipeline, num_inference_steps=28, height=…, width=…).
editor = editor_of(load(), batch=16, num_inference_steps=STEPS)
# Each operation that was done counts, and that the rest is as it was. Bind experts here that know your pictures.
reward = Reward.of("compound", experts())

selectors: dict[str, Selector] = {"step by step": Sequential(n=4), "all at once": BestOf(n=8)}
for name, selector in selectors.items():
    (selection,) = select(selector, sample, editor=editor, reward=reward)
    print(f"{name}: {selection.value} for {selection.spent.evaluations} evaluations")
    for step in selection.steps:
        print(f"  step {step.step}: candidate {step.id}, {step.value}, {step.score.reason}")
    if selection.picture is not None:
        selection.picture.pil().save(f"{name.replace(' ', '-')}.png")
