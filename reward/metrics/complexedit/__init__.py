"""Complex-Edit (arXiv 2504.13143): instruction following, identity preservation, perceptual quality, overall."""
