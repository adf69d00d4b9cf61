"""Thin adapters to libraries for editing, training and serving: one file or folder each. An adapter converts types and
makes no decisions. The libraries are extras, and importing this package loads none of them.
"""
