"""The oracle: rows of the op tables with other dtypes, values and sizes, beside NumPy."""
