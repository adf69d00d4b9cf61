"""A judge server as the reward of Flow-GRPO, called as its training scripts do.

pip install 'editcritic[bench,ocr,serve]'
python examples/flow_grpo_reward.py

In a Flow-GRPO script, before `main` runs, with "editcritic" in config.reward_fn:

    from editcritic.integrations.trainers import patch_flow_grpo
    patch_flow_grpo("http://127.0.0.1:8321", missing="nan")
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import PIL.Image
import torch
from skimage import data

from editcritic.integrations.serving.server import ScoringService, serve_in_thread
from editcritic.integrations.trainers import FlowGRPOReward
from editcritic.reward import Reward

source = data.coffee()
green = source[..., [1, 0, 2]]  # turns the whole image green
images = torch.from_numpy(np.stack([source, green])).movedim(3, 1) / 255  # as a pipeline returns them
prompts = ["Change the color of coffee to green"] * 2
# A row of the dataset; `editcritic` holds what the reward needs besides the prompt.
row = {"prompt": prompts[0], "image": "coffee.png", "editcritic": {"boxes": {"coffee": [[205, 95, 370, 195]]}}}
references = [PIL.Image.fromarray(source)] * 2

service = ScoringService(Reward.of("any-edit"))
with serve_in_thread(service) as url:  # or: editcritic serve, on a machine with judges
    reward = FlowGRPOReward(url)
    with ThreadPoolExecutor(max_workers=8) as executor:
        future = executor.submit(reward, images, prompts, [row] * 2, references, only_strict=True)
        rewards, _ = future.result()

print("unchanged, green:", rewards["avg"])
