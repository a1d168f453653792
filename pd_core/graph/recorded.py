"""Nodes that are recorded while values are at hand."""
