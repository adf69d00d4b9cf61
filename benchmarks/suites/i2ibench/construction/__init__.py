"""I2I-Bench's construction of prompts for a user's images."""
