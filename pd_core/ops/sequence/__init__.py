"""Operators on packed and padded sequences."""
