"""ImgEdit-Bench (arXiv 2505.20275): one question for an edit, by its type, and one of its hard instructions (UGE)."""
