"""For RL training: advantages, reward-hacking monitor, judge variance."""
