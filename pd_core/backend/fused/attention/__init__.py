"""Attention as one operator, and its gradients as another: scores never leave the caches."""
