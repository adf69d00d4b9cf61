"""GRPO with TRL: a language model writes instructions for an editor, and is rewarded for the edited images.

pip install 'editcritic[diffusers,trl]'
python examples/grpo_writer.py
"""

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from editcritic.benchmarks.sceneedit import toy
from editcritic.integrations.trl import RewardFunction

torch.set_num_threads(1)
drawn = toy(18)
samples = drawn.samples  # or your own, as `edit_request` makes them

# A tiny writer of the words in these instructions; or the name of your model.
words = sorted({word for sample in samples for word in f"{sample.instruction} :".split()})
vocabulary = {word: number for number, word in enumerate(["<pad>", "<end>", *words])}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>")
tiny = Qwen3Config(
    vocab_size=len(vocabulary), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=4, head_dim=16, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
)  # fmt: skip
writer = Qwen3ForCausalLM(tiny)

# Each row has a prompt, and the edit by which the result is judged.
prompts = Dataset.from_list(
    [{"prompt": f"{one.instruction} : ", "completion": f"{one.instruction} <end>"} for one in samples]
)
rows = Dataset.from_list(
    [
        {"prompt": f"{one.instruction} : ", "id": one.id, "instruction": one.instruction, "source": one.source.pil()}
        for one in samples
    ]
)

# It learns to repeat some of them; GRPO goes on from there.
silent = {"use_cpu": True, "bf16": False, "report_to": [], "disable_tqdm": True, "save_strategy": "no"}
config = SFTConfig(output_dir="writer", max_steps=120, learning_rate=5e-3, gradient_checkpointing=False, **silent)
SFTTrainer(writer, args=config, train_dataset=prompts, processing_class=tokenizer).train()

# The editor applies the policy's instructions; the reward scores the result. With a model:
# make_editor(FluxKontextPipeline.from_pretrained(...)), and experts for your images (docs/experts.md).
reward = RewardFunction("any-edit", drawn.experts, editor=drawn.editor)
config = GRPOConfig(
    output_dir="writer", max_steps=4, per_device_train_batch_size=16, num_generations=8, max_completion_length=16,
    learning_rate=3e-4, logging_steps=1, gradient_checkpointing=False, **silent,
)  # fmt: skip
trainer = GRPOTrainer(writer, reward_funcs=[reward], args=config, train_dataset=rows, processing_class=tokenizer)
trainer.remove_callback(PrinterCallback)
trainer.train()

for entry in trainer.state.log_history:
    if "reward" in entry:
        print("step", entry["step"], "reward", round(entry["reward"], 3))

# The same call outside a trainer gives the reasons.
first = rows[0]
(rollout,) = reward.rollouts(
    [first["prompt"]], [first["instruction"]], **{name: [first[name]] for name in ("id", "instruction", "source")}
)
print("reference:", rollout.instructions, "has the reward", rollout.score.value)
