"""ONNX files: import of models of any origin, export of models and of training steps."""
