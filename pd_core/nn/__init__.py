"""Layers: functions that create their parameters."""
