"""Thin adapters to libraries for editing, training and serving: one file or folder each.

An adapter converts a library's types to samples and scores to what the library expects; it makes no decisions. The
libraries are extras, and importing this package loads none of them: import the adapter you need. Adapters may import
`reward` and `verifiers`; neither imports them.
"""
