"""Train an editor with the reward of a judge server: another process, here on the same machine.

pip install 'editcritic[diffusers,serve,trl]'
python examples/remote_reward.py

On several machines, start `editcritic serve` on those with judges, and pass the URLs of all of them and the environment
variable with their token to every rank: RemoteReward([url, url, ...], token_env="JUDGE_TOKEN").
"""

import socket
import subprocess
import sys

from editcritic.benchmarks.sceneedit import toy
from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
from editcritic.integrations.serving.client import RemoteReward

with socket.create_server(("127.0.0.1", 0)) as free:
    port = str(free.getsockname()[1])
drawn = toy(12)
experts = "editcritic.benchmarks.sceneedit.scene_experts:scene_experts"  # for drawn images; see docs/experts.md
command = ["serve", "--port", port, "--reward", "any-edit", "--experts", experts]
server = subprocess.Popen([sys.executable, "-m", "editcritic.cli.main", *command])  # as `editcritic serve ...`
try:
    reward = RemoteReward(f"http://127.0.0.1:{port}", chunk_size=4)  # waits until the server is ready
    print(reward.card.signature, "with", len(reward.expert_ids), "experts in another process")
    trainer = DiffusionTrainer(
        drawn.pipeline(),
        reward,
        drawn.samples,
        DiffusionConfig("run", max_steps=2, groups=2, group_size=4, sde_steps=(0, 1, 2), learning_rate=6e-4),
    )
    for row in trainer.train():
        columns = ("step", "reward", "frac_reward_zero_std", "unscored", "grad_norm", "seconds/reward")
        print({name: round(row[name], 4) for name in columns if name in row})
finally:
    server.terminate()  # finishes accepted requests
    print("exit status of the server:", server.wait(timeout=60))
