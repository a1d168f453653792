"""A search for defects by random trials: `python -m tests.campaign`, see docs/reliability.md."""
