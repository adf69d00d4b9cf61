"""Proof that rewards teach: training loops from end to end, judged by the truth and not by the reward."""
