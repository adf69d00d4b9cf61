"""Flow-GRPO: train a flow-matching editor with a reward. Here the tiny editor; FLUX.1 Kontext takes two other lines.

pip install 'editcritic[diffusers,trl]'
python examples/flow_grpo.py

On several GPUs: accelerate launch examples/flow_grpo.py
"""

from pathlib import Path

from editcritic.benchmarks.sceneedit import toy
from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
from editcritic.reward import Reward
from editcritic.reward.training.reward_hacking_monitor import RewardHackingMonitor

drawn = toy(36)
pipeline = drawn.pipeline()  # or FluxKontextPipeline.from_pretrained(..., torch_dtype=torch.bfloat16).to("cuda")
reward = Reward.of("any-edit", drawn.experts)  # experts for drawn images; see docs/experts.md for yours
samples = drawn.samples  # or your own, as `edit_request` makes them

monitor = RewardHackingMonitor()
trainer = DiffusionTrainer(
    pipeline,
    reward,
    samples,
    DiffusionConfig("run", max_steps=3, groups=2, group_size=4, sde_steps=(0, 1, 2), learning_rate=6e-4, save_steps=2),
    heldout=Reward.of("judge-yes-no", drawn.experts),  # not trained on
    monitor=monitor,
)
for row in trainer.train():
    columns = ("step", "reward", "heldout", "frac_reward_zero_std", "unscored", "grad_norm", "difference")
    print({name: round(row[name], 4) for name in columns if name in row})
print("alarms:", monitor.alarms)

trained = drawn.pipeline()
trained.load_lora_weights("run")  # into a new pipeline
print(trained.get_active_adapters(), "from", sorted(path.name for path in Path("run").iterdir()))
