"""Experts for SceneEdit images. They use pixels alone, never scene graphs or recipes."""
