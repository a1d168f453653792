"""Loops over time as one operator each: recurrent layers, forward and backward."""
