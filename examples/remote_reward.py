"""An editor learns by what a judge server says: the reward is in another process, here on the same machine.

pip install 'editcritic[diffusers,serve,trl]'
python examples/remote_reward.py

On several machines, start `editcritic serve` on those with judges, give every rank the URLs of all of them, and name
the environment variable with their token: RemoteReward([url, url, ...], token_env="JUDGE_TOKEN").
"""

import socket
import subprocess
import sys

from editcritic.benchmarks.sceneedit.learned.pipeline import load
from editcritic.benchmarks.selection.trials import single
from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
from editcritic.integrations.serving.client import RemoteReward

with socket.create_server(("127.0.0.1", 0)) as free:
    port = str(free.getsockname()[1])
critics = "editcritic.benchmarks.sceneedit.critics:experts"  # experts for its pictures; see docs/experts.md for yours
command = ["serve", "--port", port, "--reward", "edit-balanced", "--experts", critics]
server = subprocess.Popen([sys.executable, "-m", "editcritic.benchmarks.cli", *command])  # as `editcritic serve ...`
try:
    reward = RemoteReward(f"http://127.0.0.1:{port}", chunk=4)  # waits until the server is ready
    print(reward.card.signature, "from", len(reward.expert_ids), "experts of another process")
    trainer = DiffusionTrainer(
        load(),
        reward,
        [trial.sample for trial in single(12, seed=0)],
        DiffusionConfig("run", steps=2, groups=2, group_size=4, chance=(0, 1, 2), learning_rate=6e-4),
    )
    for row in trainer.train():
        shown = ("step", "reward", "degenerate", "unscored", "grad_norm", "seconds/judge")
        print({name: round(row[name], 4) for name in shown if name in row})
finally:
    server.terminate()  # it finishes what it has accepted
    print("the server ended with", server.wait(timeout=60))
