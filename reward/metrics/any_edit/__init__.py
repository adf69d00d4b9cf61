"""The reward `any-edit`: instruction following, preservation and quality of any edit."""
