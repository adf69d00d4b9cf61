"""A tiny editor that is taught on SceneEdit: a diffusers pipeline for selection and RL to work with."""
