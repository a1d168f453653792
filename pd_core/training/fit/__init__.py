"""`fit`, `evaluate` and `predict` of modules, on the items of a Runner."""
