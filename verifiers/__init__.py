"""Decisions on scores: accept, reject or can't tell, best of N, step by step, search, budgets.

A verifier is a reward of `editcritic.reward` plus a rule. It never sees a model and never computes a score of its
own, so that what selects an edit is what scored it. It may import `reward`; nothing in `reward` imports it.
"""
