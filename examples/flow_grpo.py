"""Flow-GRPO: a flow-matching editor learns from a reward. The tiny editor here, FLUX.1 Kontext with two other lines.

pip install 'editcritic[diffusers,trl]'
python examples/flow_grpo.py

On several GPUs: accelerate launch examples/flow_grpo.py
"""

from pathlib import Path

from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.sceneedit.learned.pipeline import load
from editcritic.benchmarks.selection.trials import single
from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
from editcritic.reward import Reward
from editcritic.reward.alarms import Watch

pipeline = load()  # or FluxKontextPipeline.from_pretrained(..., torch_dtype=torch.bfloat16).to("cuda")
reward = Reward.of("edit-balanced", experts())  # experts for its pictures; see docs/experts.md for yours
samples = [trial.sample for trial in single(36, seed=0)]  # or your own, as `unedited` makes them

watch = Watch()
trainer = DiffusionTrainer(
    pipeline,
    reward,
    samples,
    DiffusionConfig("run", steps=3, groups=2, group_size=4, chance=(0, 1, 2), learning_rate=6e-4, save_every=2),
    heldout=Reward.of("judge-yes-no", experts()),  # nothing is trained on this one
    watch=watch,
)
for row in trainer.train():
    shown = ("step", "reward", "heldout", "degenerate", "unscored", "grad_norm", "difference")
    print({name: round(row[name], 4) for name in shown if name in row})
print("alarms:", watch.alarms)

again = load()
again.load_lora_weights("run")  # what was learned, in a fresh pipeline
print(again.get_active_adapters(), "from", sorted(path.name for path in Path("run").iterdir()))
