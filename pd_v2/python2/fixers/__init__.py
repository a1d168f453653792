"""Fixers for fissix, for syntax that its own do not handle, or would spread over more lines."""
