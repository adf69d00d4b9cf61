"""GRPO with TRL: a language model that writes instructions for an editor is rewarded for the pictures they make.

pip install 'editcritic[trl]'
python examples/grpo_writer.py
"""

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from editcritic.benchmarks.learning.writer_hand import Hand
from editcritic.benchmarks.learning.writer_model import tokenizer, untaught, warm_start
from editcritic.benchmarks.learning.writer_world import errands
from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.integrations.trl import RewardFunction

torch.set_num_threads(1)

# A tiny writer that has hardly learned to split instructions; or the name of your model.
words = tokenizer()
writer = untaught(words, seed=0)
warm_start(writer, words, seed=0, steps=150)

# Rows: a prompt, and the edit by which the result is judged, whatever the policy makes of it.
asked = errands(48, seed=0, split="train")
rows = Dataset.from_list([errand.row for errand in asked])
print("columns:", ", ".join(rows.column_names))
print("prompt:", rows[0]["prompt"])

# The editor carries out what the policy writes, a line after the other, and the reward looks at the picture.
editor = Hand(errand.compound.scene for errand in asked)  # or editor_of(FluxKontextPipeline.from_pretrained(...))
reward = RewardFunction("compound", experts(), editor=editor)  # experts for its pictures; see docs/experts.md for yours

config = GRPOConfig(
    output_dir="writer", use_cpu=True, bf16=False, max_steps=6, per_device_train_batch_size=32, num_generations=8,
    max_completion_length=40, learning_rate=3e-4, logging_steps=1, gradient_checkpointing=False,
    save_strategy="no", report_to=[], disable_tqdm=True,
)  # fmt: skip
trainer = GRPOTrainer(writer, reward_funcs=[reward], args=config, train_dataset=rows, processing_class=words)
trainer.remove_callback(PrinterCallback)
trainer.train()

for entry in trainer.state.log_history:
    if "reward" in entry:
        said = {name: round(value, 2) for name, value in entry.items() if name.count("/") == 1 and "compound" in name}
        print("step", entry["step"], "reward", round(entry["reward"], 3), said)

# The same call outside of a trainer says why.
(right,) = reward.rollouts(
    [rows[0]["prompt"]], [rows[0]["split"]], **{name: [rows[0][name]] for name in rows.column_names if name != "prompt"}
)
print("rightly split:", right.written, "is worth", right.score.value)
for name, credit in right.score.credits.items():
    print(f"{name}: {credit.reason}")
