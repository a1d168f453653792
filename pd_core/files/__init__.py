"""Files: export of ONNX models and training steps, and atomic writes."""
