"""Export of graphs as ONNX models, and of whole training steps."""
