"""What experts with models have in common: weights, prompts, answers, servers."""
