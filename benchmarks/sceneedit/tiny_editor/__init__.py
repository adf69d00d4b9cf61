"""A tiny editor trained on SceneEdit: a diffusers pipeline for selection and RL experiments."""
