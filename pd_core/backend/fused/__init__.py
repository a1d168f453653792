"""Kernels that are generated for a program, compiled when it is, and run as custom operators."""
