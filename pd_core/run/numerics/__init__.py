"""Searches for NaN and infinite values: `pd.check_numerics()`."""
