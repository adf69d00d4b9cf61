"""Public sets on which people compared or rated edits: one reader each, all in one structure."""
