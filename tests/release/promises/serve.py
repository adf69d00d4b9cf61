"""`serve` runs a judge server, and its client scores as the reward does in this process."""

from editcritic.integrations.serving.client import RemoteReward
from editcritic.reward import EditSample, Image, Reward

from .commands import INSTRUCTION, draw, free_port, running

REWARD = "guard-not-a-copy"

draw()
sample = EditSample("1", INSTRUCTION, (Image.of("before.png"),), Image.of("after.png"))
address = f"http://127.0.0.1:{free_port()}"
with running("serve", "--port", address.rpartition(":")[2], "--reward", REWARD, probe=f"{address}/readyz"):
    remote, local = RemoteReward(address), Reward.of(REWARD)
    assert remote([sample]).values == local([sample]).values
    assert remote.card == local.card
