"""The ImgEdit-Bench suite."""
