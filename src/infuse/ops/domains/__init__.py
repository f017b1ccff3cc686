"""Operators of other domains than ONNX's own: Microsoft's, classical machine learning, previews."""
