"""Fixers for fissix: Python 2 syntax that it would spread over more lines, or does not know."""
