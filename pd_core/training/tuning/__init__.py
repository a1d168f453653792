"""Fine-tuning of ONNX models: objectives, training on arrays, adapters, quantisation, artifacts."""
