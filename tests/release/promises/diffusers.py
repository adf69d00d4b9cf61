"""`diffusers` edits with a pipeline: the tiny FLUX.1 Kontext that comes along."""

from pathlib import Path

from editcritic.benchmarks.sceneedit import toy
from editcritic.reward import Reward
from editcritic.verifiers import BestOfN, Budget, select

from .commands import editcritic

drawn = toy(3)
judge = Reward.of("judge-yes-no", drawn.experts)
(selection,) = select(BestOfN(2), drawn.samples[0], editor=drawn.editor, reward=judge, budget=Budget(nfe=32))
assert selection.picture is not None, selection.reason
drawn.samples[0].source.pil().save("scene.png")
command = ["edit", "scene.png", "--instruction", drawn.samples[0].instruction, "--pipeline", "sceneedit"]
experts = "editcritic.benchmarks.sceneedit.scene_experts:scene_experts"
editcritic(*command, "--reward", "judge-yes-no", "--experts", experts, "--selector", "best-of?n=2", "-o", "edited")
assert Path("edited/edited.png").is_file()
suite = "sceneedit?prompts=3"
editcritic("bench", "generate", suite, "--pipeline", "sceneedit", "-o", "made/tiny")
editcritic("bench", "run", suite, "--outputs", "made/tiny", "-o", "results/tiny", "--experts", experts)
