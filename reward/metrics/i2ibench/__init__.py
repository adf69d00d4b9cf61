"""I2I-Bench: 15 dimensions of edits of one image, 15 of edits that make one image out of several."""
