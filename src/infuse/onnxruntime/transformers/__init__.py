"""What programs import of `onnxruntime.transformers` for inference."""
