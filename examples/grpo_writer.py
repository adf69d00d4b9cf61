"""GRPO with TRL: a language model writes instructions for an editor, and is rewarded for the edited images.

pip install 'editcritic[trl]'
python examples/grpo_writer.py
"""

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.studies.learning.rule_based_editor import RuleBasedEditor
from editcritic.benchmarks.studies.learning.writer_model import tokenizer, untrained_writer, warm_start
from editcritic.benchmarks.studies.learning.writer_tasks import split_tasks
from editcritic.integrations.trl import RewardFunction

torch.set_num_threads(1)

# A tiny writer that can barely split instructions; or the name of your model.
writer_tokenizer = tokenizer()
writer = untrained_writer(writer_tokenizer, seed=0)
warm_start(writer, writer_tokenizer, seed=0, steps=150)

# Each row has a prompt, and the edit by which the result is judged.
tasks = split_tasks(48, seed=0, split="train")
rows = Dataset.from_list([task.row for task in tasks])
print("columns:", ", ".join(rows.column_names))
print("prompt:", rows[0]["prompt"])

# The editor applies the policy's instructions one after the other; the reward scores the result.
# With a model: make_editor(FluxKontextPipeline.from_pretrained(...)), and experts for your images (docs/experts.md).
editor = RuleBasedEditor(task.compound.scene for task in tasks)
reward = RewardFunction("compound", scene_experts(), editor=editor)

config = GRPOConfig(
    output_dir="writer", use_cpu=True, bf16=False, max_steps=6, per_device_train_batch_size=32, num_generations=8,
    max_completion_length=40, learning_rate=3e-4, logging_steps=1, gradient_checkpointing=False,
    save_strategy="no", report_to=[], disable_tqdm=True,
)  # fmt: skip
trainer = GRPOTrainer(writer, reward_funcs=[reward], args=config, train_dataset=rows, processing_class=writer_tokenizer)
trainer.remove_callback(PrinterCallback)
trainer.train()

for entry in trainer.state.log_history:
    if "reward" in entry:
        parts = {name: round(value, 2) for name, value in entry.items() if name.count("/") == 1 and "compound" in name}
        print("step", entry["step"], "reward", round(entry["reward"], 3), parts)

# The same call outside a trainer gives the reasons.
(rollout,) = reward.rollouts(
    [rows[0]["prompt"]], [rows[0]["split"]], **{name: [rows[0][name]] for name in rows.column_names if name != "prompt"}
)
print("reference split:", rollout.instructions, "has the reward", rollout.score.value)
for name, credit in rollout.score.credits.items():
    print(f"{name}: {credit.reason}")
