"""Inspection of models: what runs here, what it would load, whether it answers as published."""
