"""Experts that know SceneEdit by its pixels alone: nothing they say comes from scene graphs or recipes."""
