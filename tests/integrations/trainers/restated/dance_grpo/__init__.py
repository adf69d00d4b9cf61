"""DanceGRPO's training of Qwen-Image-Edit, restated from github.com/XueZeyue/DanceGRPO, main (15cc71d, 2025-10-16), as
read on 2026-11-23. Each module restates a file, and has the lines that docs/trainers/dance_grpo.md changes there as
they are:

- `preprocess_qwenimage_edit_embeddings`: `fastvideo/data_preprocess/preprocess_qwenimage_edit_embeddings.py`
- `latent_qwenimage_edit_rl_datasets`: `fastvideo/dataset/latent_qwenimage_edit_rl_datasets.py`
- `train_grpo_qwenimage_edit`: `fastvideo/train_grpo_qwenimage_edit.py`

Models are small; what they are given and give has the shapes, types and ranges of theirs.
"""
