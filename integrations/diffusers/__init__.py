"""Editors and verifier callbacks on diffusers pipelines.

A pipeline becomes an `Editor` of `editcritic.verifiers`; where its solver allows, one that can stop half-way and show
what it is about to make.
"""
