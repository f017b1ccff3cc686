"""The modules below `onnxruntime.capi` that programs import names from."""
