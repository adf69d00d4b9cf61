"""Shared by judges: chat templates, constrained decoding, log-probabilities, endpoints."""
