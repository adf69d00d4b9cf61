"""I2I-Bench: thirty dimensions, one source and several."""
