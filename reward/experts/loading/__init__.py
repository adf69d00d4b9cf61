"""Shared by local models: loading, devices, micro-batching, image features."""
