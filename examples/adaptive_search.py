"""Adaptive best of N: a share of best-of-N's evaluations, spent on the edits where another picture may still pay.

python examples/adaptive_search.py         # a tiny Kontext, drawn scenes, nothing to download
"""

import random

from editcritic.benchmarks.sceneedit.cases import asked
from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.sceneedit.learned.lessons import WORLD
from editcritic.benchmarks.sceneedit.learned.pipeline import STEPS, load
from editcritic.benchmarks.sceneedit.render import render
from editcritic.integrations.diffusers.editor import editor_of
from editcritic.reward import Reward
from editcritic.reward.sample import TaskType
from editcritic.verifiers import Adaptive, BestOf, Journal, Selector, select, unedited

tasks: tuple[TaskType, ...] = ("color_alter", "subject_remove", "subject_replace", "background_change")
wanted = [asked(random.Random(0), WORLD, task) for task in tasks]
# Hand over as many at once as there are: what the easy ones do not need goes to the hard ones.
samples = [
    unedited(request.instruction, render(scene), id=request.instruction, boxes=scene.boxes())
    for scene, request in wanted
]

# With a pipeline of your own: editor_of(pipeline, num_inference_steps=28, height=…, width=…), and experts that know
# your pictures in Reward.of(…, experts).
editor = editor_of(load(), batch=16, num_inference_steps=STEPS)
reward = Reward.of("edit-balanced", experts())

journal = Journal()  # in memory; both searches begin with the same pictures, which are made once
selectors: dict[str, Selector] = {"best of 16": BestOf(16), "adaptive": Adaptive(16, share=0.4)}
for name, selector in selectors.items():
    found = select(selector, samples, editor=editor, reward=reward, journal=journal)
    values = [one.value for one in found]
    print(f"{name}: {found.spent.evaluations} evaluations, values {values}")
    for one in found:
        finished = sum(candidate.fate == "made" for candidate in one.candidates)
        print(f"  {one.sample.id}: {finished} of {len(one.candidates)} finished; {one.why}")
