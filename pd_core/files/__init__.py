"""Files: ONNX models, training steps, and writing without half-written results."""
