"""The page of `editcritic app`: score and rank, audit, compare, label. Made with gradio, for this machine only."""
