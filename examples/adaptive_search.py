"""Adaptive best of N: a fraction of best-of-N's evaluations, spent on the edits that another candidate may improve.

python examples/adaptive_search.py         # a tiny Kontext, drawn scenes, no download
"""

from editcritic.benchmarks.sceneedit import toy
from editcritic.integrations.diffusers import make_editor
from editcritic.reward import Reward
from editcritic.verifiers import BestOfN, Journal, Selector, select
from editcritic.verifiers.selectors import AdaptiveBestOfN

drawn = toy(tasks=["color_alter", "subject_remove", "subject_replace", "background_change"])
# Select for all samples in one call: evaluations that easy samples do not need go to hard ones.
samples = drawn.samples

# With a pipeline of your own: make_editor(pipeline, num_inference_steps=28), and experts that suit your images in
# Reward.of(…, experts).
editor = make_editor(drawn.pipeline(), batch_size=16, num_inference_steps=8)
reward = Reward.of("any-edit", drawn.experts)

journal = Journal()  # in memory; both selectors start with the same candidates, which are generated once
selectors: dict[str, Selector] = {"best of 16": BestOfN(16), "adaptive": AdaptiveBestOfN(16, budget_fraction=0.4)}
for name, selector in selectors.items():
    selections = select(selector, samples, editor=editor, reward=reward, journal=journal)
    values = [selection.value for selection in selections]
    print(f"{name}: {selections.spent.nfe} evaluations, values {values}")
    for selection in selections:
        finished = sum(candidate.status == "made" for candidate in selection.candidates)
        total = len(selection.candidates)
        print(f"  {selection.sample.instruction}: {finished} of {total} finished; {selection.reason}")
