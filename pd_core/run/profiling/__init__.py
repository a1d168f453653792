"""Times of evaluations by layer and operator: `pd.profile()`."""
