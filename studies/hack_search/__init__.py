"""A search for hacks: mixtures of the families that are worse than an edit and score higher."""

from .recipe import Component, Recipe
from .run_search import HackSearch, search
from .search_result import Candidate, Find, SampleSearch, SearchResult

__all__ = ["Candidate", "Component", "Find", "HackSearch", "Recipe", "SampleSearch", "SearchResult", "search"]
