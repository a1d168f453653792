"""Long trainings: runners and their items, checkpoints, metrics, logs."""
