"""A judge server as the reward of Flow-GRPO: what its training scripts call, and what they are given.

pip install 'editcritic[bench,ocr,serve]'
python examples/flow_grpo_reward.py

In a script of Flow-GRPO's, before `main` runs, with "editcritic" among the names in config.reward_fn:

    flow_grpo.rewards.multi_score = reward.beside(flow_grpo.rewards.multi_score)
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import PIL.Image
import torch
from skimage import data

from editcritic.integrations.flow_grpo import EditReward
from editcritic.integrations.serving.server import running
from editcritic.integrations.serving.service import Service
from editcritic.reward import Reward

source = data.coffee()
green = source[..., [1, 0, 2]]  # all of the picture is greener than it was
images = torch.from_numpy(np.stack([source, green])).movedim(3, 1) / 255  # as a pipeline gives them
prompts = ["Change the color of coffee to green"] * 2
# A line of the dataset: what the reward has to know beyond the prompt stands in `editcritic`.
line = {"prompt": prompts[0], "image": "coffee.png", "editcritic": {"boxes": {"coffee": [[205, 95, 370, 195]]}}}
references = [PIL.Image.fromarray(source)] * 2

with running(Service(Reward.of("edit-balanced"))) as url:  # or: editcritic serve, on a machine with judges
    reward = EditReward(url)
    with ThreadPoolExecutor(max_workers=8) as executor:
        future = executor.submit(reward, images, prompts, [line] * 2, references, only_strict=True)
        rewards, _ = future.result()

print("unchanged, green:", rewards["avg"])
