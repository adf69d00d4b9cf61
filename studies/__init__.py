"""Studies: what metrics, selectors and training are worth where the truth is known, and what they cost."""
