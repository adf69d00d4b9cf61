"""Load tests of judge servers."""
