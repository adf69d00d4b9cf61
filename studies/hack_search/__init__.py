"""A search for hacks: mixtures of the families that are worse than an edit and score higher."""
