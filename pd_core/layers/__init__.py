"""Layers: objects that own their parameters (`pd.nn`), functions that create them (`pd.layer`)."""
