"""Thin adapters to the libraries that make edits, train on them or judge them: one file or folder for each.

An adapter turns a library's types into samples and scores back into what the library wants, and decides nothing. Its
library is an extra, so importing this package loads none of them: import the adapter that you use. Adapters may
import `reward` and `verifiers`; neither imports them.
"""
