"""The graph: variables, ONNX nodes, names, and the inference of types."""
