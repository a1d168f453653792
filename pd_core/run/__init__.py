"""Evaluation: sessions, compiled steps and feeds."""
